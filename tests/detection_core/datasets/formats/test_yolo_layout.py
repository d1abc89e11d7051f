import os

from detection_core.datasets.formats import yolo_layout
from detection_core.datasets.formats.yolo_names import YoloSet
from detection_core.errors import DataError
from detection_core.storage.folder_listing import FolderListing, list_folder
from tests.support.cases import cases, refused
from tests.support.dataset_files import write_files

FOLDERS = {"": ["data.yaml", "train.txt"], "images": [], "images/train": ["a.jpg"]}
FOLDERS |= {"sub": ["data.yaml"], "sub/images": ["b.jpg"]}
LISTING = FolderListing(root="/data", folders=FOLDERS, complete=True)


def _place(text, file="data.yaml", base=""):
    return yolo_layout.place_of(LISTING, YoloSet(file=file, names={}, base=base), text)


@cases(
    ("", "images/train", "images/train"), ("", "./images/train/", "images/train"),
    ("", "../images/train", "images/train"), ("images", "train", "images/train"),
    ("../elsewhere", "images/train", "images/train"),
    ("/content/mine", "/content/mine/images/train", "images/train"),
    ("", "D:\\mine\\images\\train", "images/train"), ("", "train.txt", "train.txt"), (".", ".", ""),
)  # fmt: skip
def test_a_path_is_taken_where_it_leads_somewhere_below_the_root(*, base, text, place):
    assert _place(text, base=base) == place


LABELS = {
    "images/a.jpg": "labels/a.txt", "images/x/images/a.jpg": "images/x/labels/a.txt",
    "VOC/JPEGImages/a.b.png": "VOC/labels/a.b.txt", "photos/a.jpg": "photos/a.txt",
    "images/own.jpg": "images/own.txt",
}  # fmt: skip


def test_labels_lie_beside_the_images_or_with_them():
    for image, label in LABELS.items():
        folder, _, name = label.rpartition("/")
        listing = FolderListing(root="", folders={folder: [name]}, complete=True)
        assert yolo_layout.labels_of(listing, [image]) == {image: label}


def test_labels_without_names_and_sparse_lists_are_refused_and_other_texts_are_no_labels(tmp_path):
    write_files(tmp_path, {"a.jpg": "", "a.txt": "0 0.5 0.5 1 1e-05\n"})
    way_out = r"write them to classes\.txt, one a line"
    refused(DataError, way_out, lambda: yolo_layout.find(list_folder(str(tmp_path))))
    for text in ("a photo of a cat and more", "1 2 3", ""):
        write_files(tmp_path, {"a.txt": text, "pipeline.yaml": "train: 1"})
        assert yolo_layout.find(list_folder(str(tmp_path))) is None
    for name, size, message in (("a", 5 * 2**30, "at most 134,217,728 bytes"), ("b", 9, "null char")):
        write_files(tmp_path, {"images/a.jpg": "", f"{name}.txt": ""})
        os.truncate(tmp_path / f"{name}.txt", size)
        found = YoloSet(file="data.yaml", names={}, splits={"train": [f"{name}.txt"]})
        listing = list_folder(str(tmp_path))
        refused(DataError, message, yolo_layout.images_of, listing, found, {"split": "train"})


def test_paths_lead_inside_and_those_of_very_many_parts_or_named_often_are_tried_once(monkeypatch):
    assert _place("images", "sub/data.yaml") == "sub/images", "first relative to its file"
    for text in ("../../etc", "/etc", "none", "https://example.com/coco.zip"):
        refused(DataError, "below /data, found nothing", _place, text)
    tried, seen = [], []
    with monkeypatch.context() as patch:
        patch.setattr(yolo_layout.posixpath, "normpath", lambda path: tried.append(path) or "none")
        for text in ("a/" * 20_000, "a/" * 90):
            tried.clear()
            error = refused(DataError, "found nothing", _place, text)
            assert len(tried) < 250 and len(str(error)) < 400
    monkeypatch.setattr(yolo_layout, "_images_at", lambda listing, place: seen.append(place) or ["a.jpg"])
    found = YoloSet(file="data.yaml", names={}, splits={"train": ["images", "./images", "images/"] * 9})
    assert yolo_layout.images_of(LISTING, found, {"split": "train"}) == ["a.jpg"] and seen == ["images"]
