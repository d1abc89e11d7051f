"""YOLO data sets that are found in a folder."""

import pytest

from detection_core.datasets.formats import yolo_layout
from detection_core.datasets.formats.yolo_names import YoloSet
from detection_core.errors import DataError
from detection_core.storage.folder_listing import FolderListing, list_folder
from tests.support.cases import cases

LISTING = FolderListing(
    root="/data",
    folders={"": ["data.yaml", "train.txt"], "images": [], "images/train": ["a.jpg"], "sub": ["data.yaml"],
             "sub/images": ["b.jpg"]},
    complete=True,
)  # fmt: skip


@cases(
    ("", "images/train", "images/train"), ("", "./images/train/", "images/train"),
    ("", "../images/train", "images/train"), ("images", "train", "images/train"),
    ("../elsewhere", "images/train", "images/train"),
    ("/content/mine", "/content/mine/images/train", "images/train"),
    ("", "D:\\mine\\images\\train", "images/train"), ("", "train.txt", "train.txt"), (".", ".", ""),
)  # fmt: skip
def test_a_path_is_taken_where_it_leads_somewhere_below_the_root(*, base, text, place):
    assert yolo_layout.place_of(LISTING, YoloSet(file="data.yaml", names={}, base=base), text) == place


def test_a_path_is_first_relative_to_its_file():
    assert yolo_layout.place_of(LISTING, YoloSet(file="sub/data.yaml", names={}), "images") == "sub/images"


@cases("../../etc", "/etc", "none", "https://example.com/coco.zip")
def test_a_path_that_leads_nowhere_or_out_is_refused(*, text):
    with pytest.raises(DataError, match=r"below /data, found nothing"):
        yolo_layout.place_of(LISTING, YoloSet(file="data.yaml", names={}), text)


@cases(
    ("images/a.jpg", "labels/a.txt"), ("images/x/images/a.jpg", "images/x/labels/a.txt"),
    ("VOC/JPEGImages/a.b.png", "VOC/labels/a.b.txt"), ("photos/a.jpg", "photos/a.txt"),
    ("images/own.jpg", "images/own.txt"),
)  # fmt: skip
def test_labels_lie_beside_the_images_or_with_them(*, image, label):
    folders = {label.rpartition("/")[0]: [label.rpartition("/")[2]]}
    listing = FolderListing(root="", folders=folders, complete=True)
    assert yolo_layout.labels_of(listing, [image]) == {image: label}


def test_labels_without_class_names_are_refused_with_the_way_out(tmp_path):
    for name, text in (("a.jpg", ""), ("a.txt", "0 0.5 0.5 1 1e-05\n")):
        (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=r"write them to classes\.txt, one a line"):
        yolo_layout.find(list_folder(str(tmp_path)))


@cases("a photo of a cat and more", "1 2 3", "")
def test_other_text_files_beside_images_are_no_labels(tmp_path, *, text):
    for name, content in (("a.jpg", ""), ("a.txt", text), ("pipeline.yaml", "train: 1")):
        (tmp_path / name).write_text(content)
    assert yolo_layout.find(list_folder(str(tmp_path))) is None


def test_paths_of_very_many_parts_and_folders_named_many_times_are_tried_once(monkeypatch):
    tried = []
    monkeypatch.setattr(yolo_layout.posixpath, "normpath", lambda path: tried.append(path) or "none")
    for text in ("a/" * 20_000, "a/" * 90):
        tried.clear()
        with pytest.raises(DataError, match="found nothing") as caught:
            yolo_layout.place_of(LISTING, YoloSet(file="data.yaml", names={}), text)
        assert len(tried) < 250 and len(str(caught.value)) < 400
    monkeypatch.undo()
    seen = []
    monkeypatch.setattr(yolo_layout, "_images_at", lambda listing, place: seen.append(place) or ["a.jpg"])
    found = YoloSet(file="data.yaml", names={}, splits={"train": ["images", "./images", "images/"] * 9})
    assert yolo_layout.images_of(LISTING, found, {"split": "train"}) == ["a.jpg"] and seen == ["images"]


def test_a_sparse_list_of_images_is_refused(tmp_path):
    (tmp_path / "images").mkdir()
    for name, size, message in (("a.txt", 5 * 2**30, "at most 134,217,728 bytes"), ("b.txt", 9, "null char")):
        with open(tmp_path / name, "wb") as file:
            file.truncate(size)
        found = YoloSet(file="data.yaml", names={}, splits={"train": [name]})
        with pytest.raises(DataError, match=message):
            yolo_layout.images_of(list_folder(str(tmp_path)), found, {"split": "train"})
