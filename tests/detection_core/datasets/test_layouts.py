import pytest

from detection_core.datasets.layouts import (
    common_folder,
    count_images,
    count_kinds,
    longest_tails,
    name_here,
    name_splits,
    split_of_path,
    split_word,
    spread,
)
from detection_core.storage.folder_listing import FolderListing


@pytest.mark.parametrize(
    ("name", "split"),
    [("train", "train"), ("instances_train2017.json", "train"), ("VAL", "eval"), ("valid", "eval"),
     ("minival2014", "eval"), ("test-dev", ""), ("testing", "test"), ("train_test_split", ""),
     ("trainval", ""), ("trainee", ""), ("value", ""), ("", "")],
)  # fmt: skip
def test_a_name_tells_a_split_where_it_tells_one(name, split):
    assert split_word(name) == split


def test_the_last_name_of_a_path_tells():
    assert split_of_path("test/images/train") == "train" and split_of_path("a/valid/labels") == "eval"


@pytest.mark.parametrize(
    ("found", "splits"),
    [
        ({"train": 1, "eval": 2, "test": 3}, {"train": 1, "eval": 2, "test": 3}),
        ({"train": 1, "eval": 2}, {"train": 1, "eval": 2}),
        ({"test": 3, "train": 1}, {"train": 1, "eval": 3}),
        ({"train": 1}, {"train": 0.8, "eval": 0.2}),
        ({"eval": 1, "test": 2}, {"train": 0.8, "eval": 0.2}),
        ({}, {"train": 0.8, "eval": 0.2}),
    ],
)
def test_splits_have_what_a_workflow_needs(found, splits):
    assert name_splits(found) == splits


def test_folders_have_a_common_one_by_whole_names():
    assert common_folder(["a/bc", "a/bd"]) == "a"
    assert common_folder(["a/b", "a/b/c"]) == "a/b"
    assert common_folder(["a", "b"]) == common_folder(["", "b"]) == common_folder([]) == ""


def test_files_are_counted_by_kind_and_place():
    folders = {"": ["a.txt"], "in": ["1.JPG", "2.jpg"], "in/deep": ["3.png", "plain"]}
    listing = FolderListing(root="r", folders=folders, complete=True)
    said = "2 .jpg in in/, 1 files without suffix in in/deep/, 1 .png in in/deep/"
    assert count_kinds(listing, most=3) == f"{said}, and files in 1 more places"
    assert count_images(listing, ["in"]) == count_images(listing, ["."]) == 3
    assert count_images(listing, ["in/deep", "i"]) == 1
    assert count_kinds(FolderListing(root="r", folders={}, complete=True)) == "nothing"


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("a/b.jpg", "a/b.jpg"),
        ("/home/me/a/b.jpg", "home/me/a/b.jpg"),
        ("C:\\me\\b.jpg", "me/b.jpg"),
        ("\\\\host\\b.jpg", "host/b.jpg"),
        ("s3://bucket/b.jpg", "bucket/b.jpg"),
        ("../../a/../b.jpg", "b.jpg"),
        ("./b.jpg", "b.jpg"),
        ("..", ""),
    ],
)
def test_a_name_of_another_machine_loses_its_beginning(name, here):
    assert name_here(name) == here


def test_the_longest_tails_and_some_of_all_items_are_taken():
    paths = ["a/x.jpg", "b/a/x.jpg", "c/x.jpg"]
    assert longest_tails("b/a/x.jpg", paths) == ["b/a/x.jpg"]
    assert longest_tails("d/x.jpg", paths) == paths and longest_tails("x.jpg", []) == []
    assert spread(range(10), 4) == [0, 3, 6, 9] and list(spread(range(3), 4)) == [0, 1, 2]
    assert spread([], 3) == [] and spread([1, 2], 1) == [1]
