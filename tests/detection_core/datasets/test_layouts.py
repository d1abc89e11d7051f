from detection_core.datasets import layouts
from detection_core.storage.folder_listing import FolderListing
from tests.support.cases import cases


@cases(
    ("train", "train"), ("instances_train2017.json", "train"), ("VAL", "eval"), ("valid", "eval"),
    ("minival2014", "eval"), ("test-dev", ""), ("testing", "test"), ("train_test_split", ""),
    ("trainval", ""), ("trainee", ""), ("value", ""), ("", ""),
)  # fmt: skip
def test_a_name_tells_a_split_where_it_tells_one(*, name, split):
    assert layouts.split_word(name) == split


def test_last_names_tell_and_longest_tails_are_taken():
    assert [layouts.split_of_path(path) for path in ("test/in/train", "a/valid/in")] == ["train", "eval"]
    lists = {"a": ["a/bc", "a/bd"], "a/b": ["a/b", "a/b/c"]}
    assert [layouts.common_folder(paths) for paths in lists.values()] == list(lists)
    assert [layouts.common_folder(paths) for paths in (["a", "b"], ["", "b"], [])] == [""] * 3
    paths = ["a/x.jpg", "b/a/x.jpg", "c/x.jpg"]
    assert layouts.longest_tails("b/a/x.jpg", paths) == ["b/a/x.jpg"]
    assert layouts.longest_tails("d/x.jpg", paths) == paths and layouts.longest_tails("x.jpg", []) == []
    assert layouts.spread(range(10), 4) == [0, 3, 6, 9] and list(layouts.spread(range(3), 4)) == [0, 1, 2]
    assert layouts.spread([], 3) == [] and layouts.spread([1, 2], 1) == [1]


@cases(
    ({"train": 1, "eval": 2, "test": 3}, {"train": 1, "eval": 2, "test": 3}),
    ({"train": 1, "eval": 2}, {"train": 1, "eval": 2}), ({"test": 3, "train": 1}, {"train": 1, "eval": 3}),
    ({"train": 1}, {"train": 0.8, "eval": 0.2}), ({"eval": 1, "test": 2}, {"train": 0.8, "eval": 0.2}),
    ({}, {"train": 0.8, "eval": 0.2}),
)  # fmt: skip
def test_splits_have_what_a_workflow_needs(*, found, splits):
    assert layouts.name_splits(found) == splits


def test_files_are_counted_by_kind_and_place():
    folders = {"": ["a.txt"], "in": ["1.JPG", "2.jpg"], "in/deep": ["3.png", "plain"]}
    listing = FolderListing(root="r", folders=folders, complete=True)
    said = "2 .jpg in in/, 1 files without suffix in in/deep/, 1 .png in in/deep/"
    assert layouts.count_kinds(listing, most=3) == f"{said}, and files in 1 more places"
    assert layouts.count_images(listing, ["in"]) == layouts.count_images(listing, ["."]) == 3
    assert layouts.count_images(listing, ["in/deep", "i"]) == 1
    assert layouts.count_kinds(FolderListing(root="r", folders={}, complete=True)) == "nothing"


@cases(
    ("a/b.jpg", "a/b.jpg"), ("/home/me/a/b.jpg", "home/me/a/b.jpg"), ("C:\\me\\b.jpg", "me/b.jpg"),
    ("\\\\host\\b.jpg", "host/b.jpg"), ("s3://bucket/b.jpg", "bucket/b.jpg"), ("../../a/../b.jpg", "b.jpg"),
    ("./b.jpg", "b.jpg"), ("..", ""),
)  # fmt: skip
def test_a_name_of_another_machine_loses_its_beginning(*, name, here):
    assert layouts.name_here(name) == here
