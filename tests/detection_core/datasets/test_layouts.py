"""Layouts of data sets, and how they are found."""

import json

import pytest

from detection_core.datasets import layouts
from detection_core.datasets.layout_search import describe_search, find_format, find_layout, find_layouts
from detection_core.datasets.layouts import RATIOS
from detection_core.datasets.readers import find_reader
from detection_core.errors import DataError
from detection_core.storage import files
from detection_core.storage.folder_listing import FolderListing
from tests.support.cases import cases, refused
from tests.support.dataset_files import Coco, subfolder, voc_xml, write_files, write_voc
from tests.support.object_store import s3_server
from tests.support.same_set import IMAGES, WRITERS

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


def test_names_tell_splits_lose_their_beginning_and_are_told_apart_by_their_tails_and_counted():
    assert {name: layouts.split_word(name) for name in SPLIT_WORDS} == SPLIT_WORDS
    assert {name: layouts.name_here(name) for name in NAMES_HERE} == NAMES_HERE
    assert [layouts.split_of_path(path) for path in ("test/in/train", "a/valid/in")] == ["train", "eval"]
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


def _voc(root, annotations, images, names):
    for name in names:
        write_files(root, {f"{annotations}/{name}.xml": voc_xml(name), f"{images}/{name}.jpg": b"image"})


def _coco(root, path, names, **changed):
    images = [{"id": n, "file_name": name, "width": 4, "height": 3} for n, name in enumerate(names)]
    annotations = [{"id": 1, "image_id": 0, "category_id": 1, "bbox": [0, 0, 1, 1]}]
    content = {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "cat"}]}
    write_files(root, {path: json.dumps(content | changed)})


def _challenge(root):
    write_voc(root / "VOCdevkit" / "VOC2007")
    lists = dict.fromkeys(("val.txt", "test.txt", "cat_train.txt", "trainval.txt"), "a\n")
    write_files(root / "VOCdevkit" / "VOC2007" / "ImageSets" / "Main", lists)


def _exported(root):
    for split, names in (("train", "abc"), ("valid", "d"), ("test", "e")):
        _voc(root, split, split, names)


def _split_below(root):
    for split, names in (("train", "abc"), ("test", "d")):
        _voc(root, f"annotations/{split}", f"images/{split}", names)


def _official(root):
    for split in ("train", "val"):
        _coco(root, f"annotations/instances_{split}2017.json", [f"{split}.jpg"])
        _coco(root, f"annotations/captions_{split}2017.json", [f"{split}.jpg"], categories=[], annotations=[])
        _coco(root, f"annotations/person_keypoints_{split}2017.json", [f"{split}.jpg"])
        write_files(root, {f"{split}2017/{split}.jpg": b"image"})


def _roboflow(root):
    for split in ("train", "valid"):
        _coco(root, f"{split}/_annotations.coco.json", ["same.jpg"])
        write_files(root, {f"{split}/same.jpg": b"image"})


def _places(annotations, images):
    return {"annotations": annotations, "images": images}


@cases(
    (_challenge, "voc", "VOCdevkit/VOC2007",
     {"train": "ImageSets/Main/train.txt", "eval": "ImageSets/Main/val.txt",
      "test": "ImageSets/Main/test.txt"}),
    (lambda root: _voc(root, "annots", "images", "abc"), "voc", "", RATIOS),
    (lambda root: _voc(root, "photos", "photos", "ab"), "voc", "", RATIOS),
    (_exported, "voc", "", {"train": _places("train", "train"), "eval": _places("valid", "valid"),
                            "test": _places("test", "test")}),
    (_split_below, "voc", "", {"train": _places("annotations/train", "images/train"),
                               "eval": _places("annotations/test", "images/test")}),
    (lambda root: Coco(root).write(), "coco", "", RATIOS),
    (_official, "coco", "", {"train": _places("annotations/instances_train2017.json", "train2017"),
                             "eval": _places("annotations/instances_val2017.json", "val2017")}),
    (_roboflow, "coco", "", {"train": _places("train/_annotations.coco.json", "train"),
                             "eval": _places("valid/_annotations.coco.json", "valid")}),
)  # fmt: skip
def test_a_set_is_found_where_it_lies_and_read_from_there(tmp_path, *, write, data_format, inside, splits):
    write(tmp_path)
    layout = find_layout(str(tmp_path))
    assert (layout.format, layout.splits) == (data_format, splits)
    assert layout.path == str(tmp_path / inside) if inside else layout.path == str(tmp_path)
    assert layout.images > 0 and str(layout.images) in layout.evidence
    reader = find_reader(layout.format)
    for location in [None] if splits == RATIOS else splits.values():
        found = reader.read(layout.path, location)
        assert found.images and not found.rejected
        assert all((tmp_path / image.path).is_file() for image in found.images)


def test_images_of_one_name_in_several_folders_are_those_of_the_annotations_own(tmp_path):
    for camera in ("camera 1", "camera 2"):
        _voc(tmp_path, f"annots/{camera}", f"photos/{camera}", "ab")
    layout = find_layout(str(tmp_path))
    images = list(find_reader("voc").read(layout.path, None).images)
    assert sorted(image.path for image in images) == sorted(map(str, tmp_path.rglob("*.jpg")))
    assert all(image.source_id == image.filename.removesuffix(".jpg") for image in images)


def test_a_set_of_every_format_is_found_and_read_on_an_object_store(tmp_path):
    with s3_server() as bucket:
        for name, write in {**WRITERS, "below": _split_below}.items():
            write(tmp_path / name)
            files.copy_tree(str(tmp_path / name), f"{bucket}/{name}")
            layout = find_layout(f"{bucket}/{name}")
            assert (layout.path, layout.format) == (f"{bucket}/{name}", "voc" if name == "below" else name)
            if name == "below":
                here = find_layout(str(tmp_path / name))
                assert (layout.splits, layout.evidence) == (here.splits, here.evidence)
            part = layout.splits["train"] if name == "below" else None
            found = find_reader(layout.format).read_split(layout.path, part, None)
            images = list(found.images)
            assert len(images) == len(IMAGES) and not found.rejected
            assert all(files.read_regular(image.path, 1 << 20) for image in images)


@cases(
    ({"annotations": "annotations.json", "images": "images"}, "coco"), ("annotations.json", "coco"),
    ({"annotations": "annotations.xml", "images": "images"}, "cvat"),
    ({"data": "data.yaml", "split": "train"}, "yolo"), ({"names": "data.yaml", "images": "images"}, "yolo"),
)  # fmt: skip
def test_splits_tell_which_of_several_sets_is_meant(tmp_path, *, location, data_format):
    for name in ("cvat", "yolo", "coco"):
        WRITERS[name](tmp_path)
    assert find_format(str(tmp_path), [location]) == (str(tmp_path), data_format)


def test_splits_tell_the_format_and_those_that_lead_nowhere_are_refused(tmp_path):
    _exported(tmp_path)
    assert find_format(str(tmp_path), [_places("train", "train")]) == (str(tmp_path), "voc")
    below = subfolder(tmp_path, 1)
    Coco(below).write("annotations.json")
    content = json.loads((below / "annotations.json").read_text())
    del content["images"]  # what is wrong with it, the reader says
    (below / "annotations.json").write_text(json.dumps(content))
    for location in (None, "annotations.json"):
        assert find_format(str(below), [location]) == (str(below), "coco")
    below = subfolder(tmp_path, 2)
    _voc(below, "photos", "photos", "ab")
    with pytest.raises(DataError, match=r"data.splits that lead to.*Looked for COCO.*in photos/"):
        find_format(str(below), [{"annotations": "nowhere", "images": "photos"}])


def test_what_is_not_read_ambiguous_or_missing_is_named(tmp_path):
    project = {"objects": [{"classTitle": "cat", "geometryType": "rectangle"}]}
    (tmp_path / "a.json").write_text(json.dumps(project))
    refused(DataError, "Found a Supervisely project", find_format, str(tmp_path), [None])
    below = subfolder(tmp_path, 1)
    _voc(below, "annots", "images", "abcdef")
    _coco(below, "other/some.json", ["x.jpg"])
    write_files(below, {"other/x.jpg": b"image"})
    assert [layout.format for layout in find_layouts(str(below))] == ["voc", "coco"]
    below = subfolder(tmp_path, 2)
    _coco(below, "monday.json", ["x.jpg"])
    _coco(below, "tuesday.json", ["x.jpg"])
    refused(DataError, r"file for each split, found monday\.json, tuesday\.json", find_layouts, str(below))
    tmp_path = subfolder(tmp_path, 3)
    names = ("pictures/a.jpg", "pictures/b.jpg", "read.me")
    write_files(tmp_path, {**dict.fromkeys(names, ""), "config.json": "{}"})
    caught = refused(DataError, "expected an annotated data set", find_layouts, str(tmp_path))
    said = describe_search(str(tmp_path))
    assert caught.message.endswith(said)
    assert "COCO JSON: a .json file" in said and "Pascal VOC: an XML file" in said
    assert "2 .jpg in pictures/" in said and "2 images without annotations" in said
    refused(DataError, "expected the folder of a data set, found none", find_layouts, str(tmp_path / "none"))
