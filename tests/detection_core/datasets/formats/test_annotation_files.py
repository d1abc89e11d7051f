from detection_core.datasets.formats import annotation_files
from detection_core.datasets.formats.annotation_files import AnnotationFile, describe_files, divide
from detection_core.datasets.layouts import RATIOS
from detection_core.errors import ConfigError, DataError
from detection_core.storage.folder_listing import FolderListing, list_folder
from tests.support.cases import cases, refused
from tests.support.dataset_files import subfolder, write_files

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


def test_two_files_for_one_split_are_refused_and_a_description_says_what_is_left():
    for names in (("a.x", "b.x"), ("train.x", "train2.x", "val.x")):
        found, message = dict.fromkeys(names, TRAIN), "expected one annotation file for each split, found"
        refused(DataError, message, divide, LISTING, found)
    layout = describe_files(LISTING, "x", "X file", {"boxes.x": TRAIN, "other.x": VAL}, "boxes")
    assert (layout.format, layout.path, layout.splits, layout.images) == ("x", "/data", RATIOS, 2)
    assert layout.evidence == "X file in boxes.x, 2 images in images/train/; not taken: other.x"
    assert describe_files(LISTING, "x", "X file", {}) is None


def _find(listing):
    return {path: AnnotationFile(names=["a.jpg"]) for path in listing.paths(".x")}


def test_a_location_is_checked_and_none_means_all_that_is_found_below_one_folder(tmp_path):
    write_files(tmp_path, {"one.x": "", "images/a.jpg": ""})
    root = str(tmp_path)

    def locate(where, path=root):
        return annotation_files.locate_sources(path, where, _find, "an X file")

    (alone,), (named,) = locate(None), locate(_in("one.x", ".", subset="s"))
    assert (alone.annotations, alone.images, alone.subset) == (f"{root}/one.x", f"{root}/images", "")
    assert (named.images, named.subset) == (root, "s")
    for wrong in ("one.x", {"annotations": "one.x"}, _in("one.x", ".", other="")):
        refused(ConfigError, "expected .*FILE.*FOLDER.*found", locate, wrong)
    refused(DataError, "expected an X file, found nothing", locate, _in("two.x", "images"))
    refused(DataError, "expected the image folder", locate, _in("one.x", "none"))
    refused(DataError, "expected an X file, found none", locate, None, f"{root}/images")
    refused(DataError, "expected the folder", locate, None, f"{root}/none")
    below = subfolder(tmp_path, 1)
    write_files(below, dict.fromkeys(("train/a.jpg", "val/a.jpg", "train/train.x", "val/val.x"), ""))
    listing = list_folder(str(below))
    assert [where["images"] for where in divide(listing, _find(listing)).values()] == ["train", "val"]
    assert {source.images for source in locate(None, str(below))} == {str(below)}
