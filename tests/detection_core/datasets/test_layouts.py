from detection_core.datasets import layouts
from detection_core.storage.folder_listing import FolderListing
from tests.support.cases import cases

SPLIT_WORDS = {
    "train": "train", "instances_train2017.json": "train", "VAL": "eval", "valid": "eval", "value": "",
    "minival2014": "eval", "test-dev": "", "testing": "test", "train_test_split": "", "trainval": "",
    "trainee": "", "": "",
}  # fmt: skip
NAMES_HERE = {
    "a/b.jpg": "a/b.jpg", "/home/me/a/b.jpg": "home/me/a/b.jpg", "C:\\me\\b.jpg": "me/b.jpg",
    "\\\\host\\b.jpg": "host/b.jpg", "s3://bucket/b.jpg": "bucket/b.jpg", "../../a/../b.jpg": "b.jpg",
    "./b.jpg": "b.jpg", "..": "",
}  # fmt: skip


def test_a_name_tells_its_split_and_one_of_another_machine_loses_its_beginning():
    assert {name: layouts.split_word(name) for name in SPLIT_WORDS} == SPLIT_WORDS
    assert {name: layouts.name_here(name) for name in NAMES_HERE} == NAMES_HERE


def test_last_names_tell_longest_tails_are_taken_and_files_counted():
    assert [layouts.split_of_path(path) for path in ("test/in/train", "a/valid/in")] == ["train", "eval"]
    lists = {"a": ["a/bc", "a/bd"], "a/b": ["a/b", "a/b/c"]}
    assert [layouts.common_folder(paths) for paths in lists.values()] == list(lists)
    assert [layouts.common_folder(paths) for paths in (["a", "b"], ["", "b"], [])] == [""] * 3
    paths = ["a/x.jpg", "b/a/x.jpg", "c/x.jpg"]
    assert layouts.longest_tails("b/a/x.jpg", paths) == ["b/a/x.jpg"]
    assert layouts.longest_tails("d/x.jpg", paths) == paths and layouts.longest_tails("x.jpg", []) == []
    assert layouts.spread(range(10), 4) == [0, 3, 6, 9] and list(layouts.spread(range(3), 4)) == [0, 1, 2]
    assert layouts.spread([], 3) == [] and layouts.spread([1, 2], 1) == [1]
    folders = {"": ["a.txt"], "in": ["1.JPG", "2.jpg"], "in/deep": ["3.png", "plain"]}
    listing = FolderListing(root="r", folders=folders, complete=True)
    said = "2 .jpg in in/, 1 files without suffix in in/deep/, 1 .png in in/deep/"
    assert layouts.count_kinds(listing, most=3) == f"{said}, and files in 1 more places"
    assert layouts.count_images(listing, ["in"]) == layouts.count_images(listing, ["."]) == 3
    assert layouts.count_images(listing, ["in/deep", "i"]) == 1
    assert layouts.count_kinds(FolderListing(root="r", folders={}, complete=True)) == "nothing"


@cases(
    ({"train": 1, "eval": 2, "test": 3}, {"train": 1, "eval": 2, "test": 3}),
    ({"train": 1, "eval": 2}, {"train": 1, "eval": 2}), ({"test": 3, "train": 1}, {"train": 1, "eval": 3}),
    ({"train": 1}, {"train": 0.8, "eval": 0.2}), ({"eval": 1, "test": 2}, {"train": 0.8, "eval": 0.2}),
    ({}, {"train": 0.8, "eval": 0.2}),
)  # fmt: skip
def test_splits_have_what_a_workflow_needs(*, found, splits):
    assert layouts.name_splits(found) == splits
