"""TFRecord files, what formats with files of annotations share, and what is no data set."""

import gzip
import itertools
import json
import math
import struct
import zlib

from detection_core.data.record_format import masked_checksum, write_record
from detection_core.datasets.annotated_images import AnnotatedObject, ImageLabel, Rejected
from detection_core.datasets.formats import tfrecord
from detection_core.datasets.formats.annotation_files import AnnotationFile, FileFormat, divide
from detection_core.datasets.formats.json_files import EntryFormat
from detection_core.datasets.formats.tfrecord_example import RecordedExample
from detection_core.datasets.layout_search import find_layout, find_layouts, name_other
from detection_core.datasets.layouts import RATIOS
from detection_core.errors import ConfigError, DataError
from detection_core.storage import files
from detection_core.storage.file_parts import FilePart
from detection_core.storage.folder_listing import FolderListing, list_folder
from tests.support.cases import cases, refused
from tests.support.dataset_files import (
    ids,
    in_pixels,
    picture,
    reasons,
    stored_image,
    subfolder,
    whole,
    write_files,
)
from tests.support.features import bytes_feature, float_feature, int64_feature, serialise_features
from tests.support.record_files import encode_example, object_columns
from tests.support.same_set import WRITERS

SIDES = {"xmin": [0.25], "ymin": [0.5], "xmax": [0.5], "ymax": [1.0]}
COLUMNS = object_columns(SIDES, label=[7], text=["cat"], is_crowd=[1], area=[12.5])
MORE = {
    "difficult": [1], "truncated": [0], "view": ["Left"], "group_of": [1], "occluded": [0], "depiction": [1],
    "class/confidence": [0.5], "weight": [2.0], "mask": [picture("PNG")], "keypoint/x": [0.5, 0],
    "keypoint/y": [0.5, 0], "keypoint/visibility": [2, 0], "keypoint/text": ["nose", "ear"],
    "keypoint/num": [1],
}  # fmt: skip
LABELS = {"image/class/label": [9], "image/class/text": ["fish"], "image/class/confidence": [0.0]}


def _record(columns=COLUMNS, source_id="a", image=None, size=(40, 30)):
    stored = stored_image(picture() if image is None else image, *size, source_id=source_id)
    return encode_example(stored, columns)


def _write(path, *records):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as out:
        for record in records:
            write_record(out, record)


def _read(*given):
    return whole(tfrecord.read(*given))


def test_every_field_of_a_record_is_kept(tmp_path):
    more = {f"image/object/{key}": values for key, values in MORE.items()}
    _write(tmp_path / "a.record", _record(COLUMNS | more | LABELS))
    found = _read(str(tmp_path), "*.record")
    (image,) = found.images
    (item,) = in_pixels(image).objects
    assert (image.source_id, image.filename, image.width, image.height) == ("a", "a.jpg", 40, 30)
    assert files.read_regular(image.path, 1 << 20) == picture()
    assert (item.box, item.area, item.crowd, item.pose) == ((10, 15, 20, 30), 12.5, 1, "Left")
    assert (item.difficult, item.truncated, item.group_of, item.occluded, item.depiction) == (1, 0, 1, 0, 1)
    assert (item.confidence, item.weight, item.keypoints) == (0.5, 2.0, [(20, 15, 2), (0, 0, 0)])
    assert files.read_regular(item.mask.path, 1 << 20) == picture("PNG")
    assert image.labels == [ImageLabel("fish", 0.0)]
    assert found.categories == {"cat": 7, "fish": 9} and found.keypoint_names == {"cat": ["nose", "ear"]}


def test_ids_are_those_of_records_or_made_of_their_files_and_numbers(tmp_path):
    _write(tmp_path / "a.record", _record(size=(0, 0), source_id=""), _record(source_id=""))
    _write(tmp_path / "val" / "a.record", _record(source_id=""))
    found = _read(str(tmp_path), "a.record")
    assert ids(found) == ["a.record-0", "a.record-1"]
    assert [(image.width, image.height) for image in found.images] == [(0, 0), (40, 30)]
    assert ids(_read(str(tmp_path), None)) == ["a.record-0", "a.record-1", "val/a.record-0"]


@cases(
    (b"\x0a\x7f", "malformed_record"), (b"", "malformed_record"),
    (_record().replace(b"bbox/xmin", b"bbox/none"), "malformed_record"),
    (_record().replace(b"class/text", b"class/none"), "unknown_category"),
    (_record({**COLUMNS, "image/object/class/text": ["a\nb"]}), "malformed_record"),
)  # fmt: skip
def test_a_bad_record_costs_only_itself(tmp_path, *, record, reason):
    _write(tmp_path / "a.record", _record(), record, _record(source_id="b"))
    found = _read(str(tmp_path), "a.record")
    assert [(r.file, r.record, r.reason) for r in found.rejected] == [("a.record", "record 1", reason)]
    assert [image.source_id for image in found.images] == ["a", "b"]


def test_names_and_ids_of_classes_come_from_records_and_label_maps(tmp_path):
    by_id = _record().replace(b"class/text", b"class/none")
    by_name = _record(source_id="b").replace(b"object/class/label", b"object/class/other")
    _write(tmp_path / "a.record", by_id, by_name)
    found = _read(str(tmp_path), None, {7: "cat", 9: "dog"})
    assert [image.objects[0].name for image in found.images] == ["cat", "cat"] and not found.rejected
    assert found.categories == {"cat": 7}
    found = _read(str(tmp_path), None)
    assert reasons(found) == ["unknown_category"] and "data.label_map" in found.rejected[0].detail
    assert found.categories == {"cat": 0} and len(found.images) == 1
    _write(tmp_path / "a.record", by_name, _record(), by_name.replace(b"\x01b", b"\x01c"))
    assert _read(str(tmp_path), None).categories == {"cat": 7}


@cases(*itertools.product([gzip.compress, zlib.compress], ["a.record.gz", "a.record"]))
def test_compressed_files_are_read_like_others(tmp_path, *, pack, name):
    _write(tmp_path / "plain", _record(), _record(source_id="b", image=picture(seed=1)))
    expected = _read(str(tmp_path), "plain").images
    (tmp_path / name).write_bytes(pack((tmp_path / "plain").read_bytes()))
    found = _read(str(tmp_path), name).images
    assert [image.source_id for image in found] == ["a", "b"]
    for image, other in zip(reversed(found), reversed(expected), strict=True):  # in any order
        for field in ("path", "example"):
            read = files.read_regular(getattr(image, field), 1 << 20)
            assert read == files.read_regular(getattr(other, field), 1 << 20)
    (tmp_path / "plain").unlink()
    layout = find_layout(str(tmp_path))
    assert (layout.format, layout.images) == ("tfrecord", 2)


def test_what_belongs_to_a_set_is_located_and_what_cannot_be_read_is_refused(tmp_path):
    root = str(tmp_path)
    _write(tmp_path / "a.record", _record(), _record({**COLUMNS, "image/object/class/label": [8]}))
    (tmp_path / "map.pbtxt").write_text("item { id: 7 name: 'cat' }")
    assert [path.rpartition("/")[2] for path in tfrecord.locate(root, None)] == ["a.record", "map.pbtxt"]
    refused(DataError, "one id for the class 'cat', found 7 and 8", _read, root, None)
    refused(ConfigError, "a TFRecord file or a pattern", tfrecord.locate, root, {"a": "b"})
    refused(DataError, "expected TFRecord files, found none", tfrecord.locate, root, "b*")
    refused(DataError, "expected TFRecord files, found none", tfrecord.locate, f"{root}/..", "none/*")
    (tmp_path / "a").write_bytes(gzip.compress((tmp_path / "a.record").read_bytes())[:-100])
    refused(DataError, "cannot be read: cut compressed data", _read, root, "a")


OBJECT = "image/object"
BOXES = {"xmin": [0.25, 0.0], "ymin": [0.5, 0.0], "xmax": [0.5, 1.0], "ymax": [1.0, 1.0]}
FEATURES = {
    "image/encoded": bytes_feature([picture()]),
    **{f"{OBJECT}/bbox/{side}": float_feature(values) for side, values in BOXES.items()},
    f"{OBJECT}/class/label": int64_feature([3, 4]),
}
NAMES = {3: "cat", 4: "dog"}


def _example(names=NAMES, **changed):
    features = {**FEATURES, **{f"image/{key.replace('__', '/')}": value for key, value in changed.items()}}
    data = serialise_features({key: value for key, value in features.items() if value})
    return RecordedExample(data, FilePart(100, len(data), "/a.record"), names)


def test_the_least_that_a_record_can_have_is_an_image_and_ids_and_numbers_tell_the_rest():
    example = _example()
    image = example.image("a.record-0")
    assert (image.source_id, image.filename, image.width, image.height) == ("a.record-0", "a.record-0", 0, 0)
    assert image.in_fractions and image.example.startswith("part:100+")
    boxes = [("cat", (0.25, 0.5, 0.5, 1.0)), ("dog", (0.0, 0.0, 1.0, 1.0))]
    assert [(item.name, item.box) for item in image.objects] == boxes
    assert example.classes() == {"cat": 3, "dog": 4} and example.keypoint_names() == {}
    example = _example(class__label=int64_feature([4]), class__confidence=float_feature([0.0]))
    assert example.image("0").labels == [ImageLabel("dog", 0.0)]
    x = float_feature([0.5, float("nan"), 0.25, 0.5])
    example = _example(object__keypoint__x=x, object__keypoint__y=float_feature([0.5] * 4))
    names = ["keypoint_0", "keypoint_1"]
    assert example.keypoint_names() == {"cat": names, "dog": names}
    first, second = [item.keypoints for item in example.image("0").objects]
    assert (first, second) == ([(0.5, 0.5, 2), (0.0, 0.0, 0)], [(0.25, 0.5, 2), (0.5, 0.5, 2)])


@cases(
    ({"object__class__label": bytes_feature([b"1", b"2"])}, "malformed_record", "numbers in .*found text"),
    ({"object__class__text": int64_feature([1, 2])}, "malformed_record", "text in .*found numbers"),
    ({"encoded": float_feature([1.0])}, "malformed_record", "text in image/encoded"),
    ({"object__difficult": int64_feature([1])}, "malformed_record", "2 values in .*difficult, found 1"),
    ({"object__view": bytes_feature([b"Left"])}, "malformed_record", "2 values in .*view, found 1"),
    ({"object__class__label": int64_feature([3])}, "malformed_record", "a class for each of 2 boxes"),
    ({"object__class__label": None}, "malformed_record", "a class for each of 2 boxes, found 0"),
    ({"object__class__label": int64_feature([3, 9])}, "unknown_category", r"the ids \[9\] have no name"),
    ({"object__mask": bytes_feature([b"a"])}, "malformed_mask", "a mask for each of 2 boxes, found 1"),
    ({"object__bbox__xmin": float_feature([0.5])}, "malformed_record", "as many of each side"),
    ({"object__keypoint__x": float_feature([0.5])}, "malformed_record", "as many keypoints of each"),
)
def test_columns_that_do_not_belong_together_are_rejected(*, changed, reason, found):
    assert refused(Rejected, found, lambda: _example(**changed).image("0")).reason == reason


LISTS = ("class__label", "object__class__label", "object__is_crowd", "object__weight", "object__area")


@cases(*itertools.product(LISTS, [math.nan, math.inf, -math.inf]))
def test_numbers_that_are_none_put_the_record_aside(*, key, value):
    example = lambda: _example(**{key: float_feature([1.0, value])}).image("0")  # noqa: E731
    error = refused(Rejected, f"finite numbers in image/{key.replace('__', '/')}", example)
    assert error.reason == "malformed_record"


IMAGE = b"\x0aimage/encoded"


@cases(
    (["train.record", "test.record"], {"train": "train.record", "eval": "test.record"}),
    (["my_train.record-00000-of-00002", "my_train.record-00001-of-00002", "my_val.record-00000-of-00001"],
     {"train": "my_train.record-0000*", "eval": "my_val.record-00000-of-00001"}),
    (["Split-train/x", "Split-eval/x"], {"train": "Split-train/x", "eval": "Split-eval/x"}),
    (["data.bin"], RATIOS), (["train/a", "more_train/b", "val/c"], RATIOS),
)  # fmt: skip
def test_files_of_any_name_are_found_by_what_is_in_them(tmp_path, *, names, splits):
    for name in names:
        _write(tmp_path / name, IMAGE, IMAGE)
    _write(tmp_path / "other", b"no picture")
    (tmp_path / "train.txt").write_text("image/")
    layout = tfrecord.find(list_folder(str(tmp_path)))
    assert layout.splits == splits and layout.images == 2 * len(names)
    assert f"{len(names)} TFRecord files" in layout.evidence


def test_records_are_read_with_their_places_and_damaged_cut_or_endless_ones_told(tmp_path):
    read = lambda path: list(tfrecord.read_records(str(path)))  # noqa: E731
    (tmp_path / "a").write_bytes(b"image/" * 10)
    assert tfrecord.find(list_folder(str(tmp_path))) is None
    length = struct.pack("<Q", 1 << 60)
    assert tfrecord.record_length(length + struct.pack("<I", masked_checksum(length))) is None
    assert tfrecord.record_length(b"short") is None
    path = tmp_path / "a"
    _write(path, b"first", b"second")
    data = bytearray(path.read_bytes())
    first, second = FilePart(12, 5, str(path)), FilePart(33, 6, str(path))
    assert read(path) == [(first, b"first"), (second, b"second")]
    for cut in (5, 14, 20, 22, 40):
        path.write_bytes(data[:cut])
        refused(DataError, r"expected record [01] of a TFRecord file.*copy it again", read, path)
        assert tfrecord.count_records(str(path)) == (cut > 21)
    path.write_bytes(gzip.compress(data))
    packed = [(part._replace(packed=True), data) for part, data in ((first, b"first"), (second, b"second"))]
    assert read(path) == packed and tfrecord.count_records(str(path)) == 2
    data[13] ^= 1
    path.write_bytes(data)
    assert read(path) == [(first, None), (second, b"second")]
    assert tfrecord.count_records(str(path)) == 2


def test_of_many_files_in_a_folder_some_are_opened_and_too_large_records_are_refused(tmp_path, monkeypatch):
    for number in range(25):
        _write(tmp_path / f"part-{number:03d}.tfrecord", IMAGE)
    (tmp_path / "part-999.tfrecord").write_bytes(b"not opened: 20 others have this suffix")
    (tmp_path / "zz.other").write_bytes(b"another suffix")
    found = tfrecord.find_files(list_folder(str(tmp_path)))
    assert len(found) == 26 and found[-1] == "part-999.tfrecord"
    monkeypatch.setattr(tfrecord, "MAX_IMAGE_FILE_BYTES", 3)
    path = str(tmp_path / "part-000.tfrecord")
    refused(
        DataError,
        "expected records of at most 3 bytes, found one of .*: number 0",
        lambda: list(tfrecord.read_records(path)),
    )


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
    made = FileFormat(name="x", title="X file", what="an X file", find_files=_find, usual="boxes")
    layout = made.describe(LISTING, {"boxes.x": TRAIN, "other.x": VAL})
    assert (layout.format, layout.path, layout.splits, layout.images) == ("x", "/data", RATIOS, 2)
    assert layout.evidence == "X file in boxes.x, 2 images in images/train/; not taken: other.x"
    assert made.describe(LISTING, {}) is None


def _find(listing):
    return {path: AnnotationFile(names=["a.jpg"]) for path in listing.paths(".x")}


def test_a_location_is_checked_and_none_means_all_that_is_found_below_one_folder(tmp_path):
    write_files(tmp_path, {"one.x": "", "images/a.jpg": ""})
    root = str(tmp_path)

    def locate(where, path=root):
        return FileFormat(name="x", title="X", what="an X file", find_files=_find).sources(path, where)

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


DRAWN = {"classTitle": "cat", "geometryType": "rectangle", "points": {"exterior": [[1, 2], [3, 4]]}}
DARWIN = {"version": "2.0", "schema_ref": "https://darwin-public.s3.example/2.0", "annotations": []}
ROW = {"file_name": "a.jpg", "objects": {"bbox": [[1, 2, 3, 4]], "categories": [0]}}
FILES = {
    "KITTI": ("label_2/a.txt", "Car 0.00 0 -1.57 599.4 156.4 629.8 189.2 2.8 2.6 12.3 0.4 1.8 69.4 -1.56\n"),
    "Supervisely": ("ds0/ann/a.jpg.json", json.dumps({"objects": [DRAWN]})),
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
