import gzip
import itertools
import zlib

from detection_core.data.encode import ImageLabels, KeypointColumns, ObjectColumns, encode_example
from detection_core.data.record_writer import write_record
from detection_core.datasets.annotated_images import ImageLabel
from detection_core.datasets.formats import tfrecord
from detection_core.datasets.layout_search import find_layout
from detection_core.errors import ConfigError, DataError
from detection_core.storage import files
from tests.support.cases import cases, refused
from tests.support.dataset_files import ids, in_pixels, picture, reasons, stored_image

COLUMNS = {
    "xmin": [0.25], "ymin": [0.5], "xmax": [0.5], "ymax": [1.0], "labels": [7], "texts": ["cat"],
    "is_crowd": [1], "area": [12.5],
}  # fmt: skip
MORE = {
    "difficult": [1], "truncated": [0], "views": ["Left"], "group_of": [1], "occluded": [0], "depiction": [1],
    "confidences": [0.5], "weights": [2.0], "masks": [picture("PNG")],
}  # fmt: skip


def _record(columns=None, source_id="a", image=None, size=(40, 30), **more):
    data = picture() if image is None else image
    stored = stored_image(data, *size, source_id=source_id)
    return encode_example(stored, ObjectColumns(**(columns or COLUMNS)), **more)


def _write(path, *records):
    with path.open("wb") as out:
        for record in records:
            write_record(out, record)


def test_every_field_of_a_record_is_kept(tmp_path):
    keypoints = KeypointColumns(x=[0.5, 0], y=[0.5, 0], visibility=[2, 0], texts=["nose", "ear"], numbers=[1])
    labels = ImageLabels(labels=[9], texts=["fish"], confidences=[0.0])
    _write(tmp_path / "a.record", _record({**COLUMNS, **MORE}, keypoints=keypoints, labels=labels))
    found = tfrecord.read(str(tmp_path), "*.record")
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
    (tmp_path / "val").mkdir()
    _write(tmp_path / "a.record", _record(size=(0, 0), source_id=""), _record(source_id=""))
    _write(tmp_path / "val" / "a.record", _record(source_id=""))
    found = tfrecord.read(str(tmp_path), "a.record")
    assert ids(found) == ["a.record-0", "a.record-1"]
    assert [(image.width, image.height) for image in found.images] == [(0, 0), (40, 30)]
    assert ids(tfrecord.read(str(tmp_path), None)) == ["a.record-0", "a.record-1", "val/a.record-0"]


@cases(
    (b"\x0a\x7f", "malformed_record"), (b"", "malformed_record"),
    (_record().replace(b"bbox/xmin", b"bbox/none"), "malformed_record"),
    (_record().replace(b"class/text", b"class/none"), "unknown_category"),
    (_record({**COLUMNS, "texts": ["a\nb"]}), "malformed_record"),
)  # fmt: skip
def test_a_bad_record_costs_only_itself(tmp_path, *, record, reason):
    _write(tmp_path / "a.record", _record(), record, _record(source_id="b"))
    found = tfrecord.read(str(tmp_path), "a.record")
    assert [(r.file, r.record, r.reason) for r in found.rejected] == [("a.record", "record 1", reason)]
    assert [image.source_id for image in found.images] == ["a", "b"]


def test_names_and_ids_of_classes_come_from_records_and_label_maps(tmp_path):
    by_id = _record().replace(b"class/text", b"class/none")
    by_name = _record(source_id="b").replace(b"object/class/label", b"object/class/other")
    _write(tmp_path / "a.record", by_id, by_name)
    found = tfrecord.read_named(str(tmp_path), None, {7: "cat", 9: "dog"})
    assert [image.objects[0].name for image in found.images] == ["cat", "cat"] and not found.rejected
    assert found.categories == {"cat": 7}
    found = tfrecord.read(str(tmp_path), None)
    assert reasons(found) == ["unknown_category"] and "data.label_map" in found.rejected[0].detail
    assert found.categories == {"cat": 0} and len(found.images) == 1
    _write(tmp_path / "a.record", by_name, _record(), by_name.replace(b"\x01b", b"\x01c"))
    assert tfrecord.read(str(tmp_path), None).categories == {"cat": 7}


@cases(*itertools.product([gzip.compress, zlib.compress], ["a.record.gz", "a.record"]))
def test_compressed_files_are_read_like_others(tmp_path, *, pack, name):
    _write(tmp_path / "plain", _record(), _record(source_id="b", image=picture(seed=1)))
    expected = tfrecord.read(str(tmp_path), "plain").images
    (tmp_path / name).write_bytes(pack((tmp_path / "plain").read_bytes()))
    found = tfrecord.read(str(tmp_path), name).images
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
    _write(tmp_path / "a.record", _record(), _record({**COLUMNS, "labels": [8]}))
    (tmp_path / "map.pbtxt").write_text("item { id: 7 name: 'cat' }")
    names = [path.rpartition("/")[2] for path in tfrecord.locate(root, None)]
    assert names == ["a.record", "map.pbtxt"]
    refused(DataError, "one id for the class 'cat', found 7 and 8", tfrecord.read, root, None)
    refused(ConfigError, "a TFRecord file or a pattern", tfrecord.locate, root, {"a": "b"})
    refused(DataError, "expected TFRecord files, found none", tfrecord.locate, root, "b*")
    refused(DataError, "expected TFRecord files, found none", tfrecord.locate, f"{root}/..", "none/*")
    (tmp_path / "a").write_bytes(gzip.compress((tmp_path / "a.record").read_bytes())[:-100])
    refused(DataError, "cannot be read: cut compressed data", tfrecord.read, root, "a")
