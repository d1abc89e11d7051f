"""What formats share: files of annotations, their entries, and what is no data set."""

import json

from detection_core.datasets.annotated_images import AnnotatedObject, Rejected
from detection_core.datasets.formats import annotation_files
from detection_core.datasets.formats.annotation_files import AnnotationFile, describe_files, divide
from detection_core.datasets.formats.json_files import EntryFormat
from detection_core.datasets.layout_search import find_layouts, name_other
from detection_core.datasets.layouts import RATIOS
from detection_core.errors import ConfigError, DataError
from detection_core.storage.folder_listing import FolderListing, list_folder
from tests.support.cases import cases, refused
from tests.support.dataset_files import picture, reasons, subfolder, whole, write_files
from tests.support.same_set import WRITERS

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


def test_images_that_no_entry_is_about_are_known_when_all_was_read(tmp_path):
    for name in "abcd":
        (tmp_path / f"{name}.jpg").write_bytes(picture())

    def objects_of(entry):
        if entry["name"] == "c.jpg":
            raise Rejected("malformed_annotation", "no box")
        return [AnnotatedObject("cat", (0, 0, 1, 1), label="object 1")]

    entries = [{"name": "/home/me/a.jpg"}, {"name": "b"}, {"name": "c.jpg"}, 7, {"name": "\n"}]
    (tmp_path / "all.json").touch()
    made = EntryFormat(
        name="toy",
        title="Toy",
        what="a toy",
        find_files=lambda listing: {},
        entries=lambda path: entries,
        image_name=lambda entry: entry["name"],
        objects=objects_of,
    )
    found = made.read(str(tmp_path), {"annotations": "all.json", "images": "."})
    assert not found.categories
    found = whole(found)
    assert [image.filename for image in found.images] == ["a.jpg", "b.jpg"] and found.categories == {"cat": 0}
    assert reasons(found) == ["malformed_annotation", "malformed_record", "malformed_record"]
    assert {r.file for r in found.rejected} == {"all.json"}
    assert [image.filename for image in found.unannotated] == ["d.jpg"]


OBJECT = {"classTitle": "cat", "geometryType": "rectangle", "points": {"exterior": [[1, 2], [3, 4]]}}
DARWIN = {"version": "2.0", "schema_ref": "https://darwin-public.s3.example/2.0", "annotations": []}
ROW = {"file_name": "a.jpg", "objects": {"bbox": [[1, 2, 3, 4]], "categories": [0]}}
FILES = {
    "KITTI": ("label_2/a.txt", "Car 0.00 0 -1.57 599.4 156.4 629.8 189.2 2.8 2.6 12.3 0.4 1.8 69.4 -1.56\n"),
    "Supervisely": ("ds0/ann/a.jpg.json", json.dumps({"objects": [OBJECT]})),
    "Darwin": ("annotations/a.json", json.dumps(DARWIN)),
    "VIA 3": ("via.json", json.dumps({"project": {"pid": "__VIA_PROJECT_ID__"}})),
    "Hugging Face": ("train/metadata.jsonl", json.dumps(ROW)),
}


@cases(*FILES)
def test_a_format_that_is_not_read_is_refused_by_its_name(tmp_path, *, name):
    path, text = FILES[name]
    write_files(tmp_path, {path: text, "a.jpg": picture()})
    message = rf"Found .*{name}.* is not read\. Convert it to COCO JSON or YOLO: "
    said = str(refused(DataError, message, find_layouts, str(tmp_path)))
    assert "Looked for" not in said and len(said) - len(str(tmp_path)) < 250


def test_parquet_and_a_table_of_metadata_are_hugging_faces_and_formats_that_are_read_no_others(tmp_path):
    tables = {"b/metadata.csv": "file_name,objects\n", "c/metadata.jsonl": "no json\n"}
    write_files(tmp_path, {"a/data.parquet": "PAR1", **tables})
    names = [name_other(list_folder(str(tmp_path / folder))) for folder in "abc"]
    assert ["Hugging Face" in name for name in names] == [True, True, False]
    for data_format, write in WRITERS.items():
        write(tmp_path / data_format)
        assert name_other(list_folder(str(tmp_path / data_format))) == "", data_format
