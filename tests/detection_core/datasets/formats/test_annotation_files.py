"""Annotation files of a folder, and the splits that they make."""

import pytest

from detection_core.datasets.formats.annotation_files import (
    AnnotationFile,
    describe_files,
    divide,
    locate_sources,
)
from detection_core.datasets.layouts import RATIOS
from detection_core.errors import ConfigError, DataError
from detection_core.storage.folder_listing import FolderListing, list_folder
from tests.support.cases import cases, refused
from tests.support.dataset_files import subfolder

FOLDERS = {"": ["all.x"], "images": [], "images/train": ["a.jpg", "c.jpg"], "images/val": ["b.jpg"]}
LISTING = FolderListing(root="/data", folders=FOLDERS, complete=True)
TRAIN, VAL = (AnnotationFile(names=["a.jpg"]), AnnotationFile(names=["b.jpg"]))


def _in(annotations, images, **more):
    return {"annotations": annotations, "images": images, **more}


@cases(
({"train.x": TRAIN, "sub/val.x": VAL},
         {"train": _in("train.x", "images/train"), "eval": _in("sub/val.x", "images/val")}),
        ({"all.x": AnnotationFile(names=["train/a.jpg", "val/b.jpg"])}, {"": _in("all.x", "images")}),
        ({"val.x": VAL}, {"": _in("val.x", "images/val")}),
        ({"all.x": AnnotationFile(names=["a.jpg"], subsets={"train": "Train", "eval": "Val"})},
         {"train": _in("all.x", "images/train", subset="Train"),
          "eval": _in("all.x", "images/train", subset="Val")}),
        ({"all.x": AnnotationFile(names=["a.jpg"], subsets={"train": "Train"})},
         {"": _in("all.x", "images/train")}),
        ({"all.x": AnnotationFile(names=["a.jpg", "b.jpg", "z.jpg"])}, {"": _in("all.x", "images")}),
        ({"all.x": AnnotationFile(names=["z.jpg"])}, {"": {"annotations": "all.x"}}),
        ({"boxes_a.x": TRAIN, "other_a.x": TRAIN}, {"": _in("boxes_a.x", "images/train")}),
)  # fmt: skip
def test_files_and_their_subsets_tell_the_splits(*, found, locations):
    assert divide(LISTING, found, "boxes") == locations


@cases(("a.x", "b.x"), ("train.x", "train2.x", "val.x"))
def test_two_files_for_one_split_are_refused(*, names):
    with pytest.raises(DataError, match="expected one annotation file for each split, found"):
        divide(LISTING, dict.fromkeys(names, TRAIN))


def test_a_description_says_what_was_seen_and_what_is_left():
    layout = describe_files(LISTING, "x", "X file", {"boxes.x": TRAIN, "other.x": VAL}, "boxes")
    assert (layout.format, layout.path, layout.splits, layout.images) == ("x", "/data", RATIOS, 2)
    assert layout.evidence == "X file in boxes.x, 2 images in images/train/; not taken: other.x"
    assert describe_files(LISTING, "x", "X file", {}) is None


def _find(listing):
    return {path: AnnotationFile(names=["a.jpg"]) for path in listing.paths(".x")}


def test_a_location_is_checked_and_none_means_all_that_is_found_below_one_folder(tmp_path):
    (tmp_path / "images").mkdir()
    for name in ("one.x", "images/a.jpg"):
        (tmp_path / name).write_text("")
    root = str(tmp_path)
    (alone,) = locate_sources(root, None, _find, "an X file")
    assert (alone.annotations, alone.images, alone.subset) == (f"{root}/one.x", f"{root}/images", "")
    (named,) = locate_sources(root, _in("one.x", ".", subset="s"), _find, "an X file")
    assert (named.images, named.subset) == (root, "s")
    for wrong in ("one.x", {"annotations": "one.x"}, _in("one.x", ".", other="")):
        with pytest.raises(ConfigError, match=r"expected .*FILE.*FOLDER.*found"):
            locate_sources(root, wrong, _find, "an X file")
    with pytest.raises(DataError, match="expected an X file, found nothing"):
        locate_sources(root, _in("two.x", "images"), _find, "an X file")
    with pytest.raises(DataError, match="expected the image folder"):
        locate_sources(root, _in("one.x", "none"), _find, "an X file")
    with pytest.raises(DataError, match=r"expected an X file, found none"):
        locate_sources(f"{root}/images", None, _find, "an X file")
    refused(DataError, "expected the folder", locate_sources, f"{root}/none", None, _find, "an X file")
    below = subfolder(tmp_path, 1)
    for name in ("train/a.jpg", "val/a.jpg", "train/train.x", "val/val.x"):
        (below / name).parent.mkdir(exist_ok=True)
        (below / name).write_text("")
    listing = list_folder(str(below))
    assert [where["images"] for where in divide(listing, _find(listing)).values()] == ["train", "val"]
    assert {source.images for source in locate_sources(str(below), None, _find, "x")} == {str(below)}
