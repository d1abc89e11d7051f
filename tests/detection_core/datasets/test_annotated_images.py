"""Records of a data set: every reason for quarantine has a record with exactly this fault."""

import hashlib
import io
import json
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from detection_core.data.encode import parse_example, values_of
from detection_core.data.pixels import check_with_both
from detection_core.datasets import annotated_images
from detection_core.datasets.annotated_images import (
    AnnotatedImage,
    AnnotatedObject,
    Polygons,
    Rejected,
    Rejection,
)
from detection_core.datasets.card import check_limit, count_reasons, write_quarantine
from detection_core.datasets.classes import make_layout
from detection_core.datasets.counts import Counts
from detection_core.datasets.encoding import ROUNDING, check_box, make_example
from detection_core.datasets.formats.tfrecord_example import RecordedExample
from detection_core.errors import DataError
from detection_core.storage.file_parts import FilePart
from tests.support.cases import cases, refused
from tests.support.dataset_files import (
    COCO_FAULTS,
    VOC_FAULTS,
    Coco,
    exif,
    picture,
    subfolder,
    voc_xml,
    write_voc,
)
from tests.support.features import bytes_feature, float_feature, int64_feature, serialise_features
from tests.support.input_data import read
from tests.support.storage_faults import few_descriptors


def _read(path, data_format="coco", splits=None):
    return read(path, data_format, splits or {"train": 1})


def test_used_up_descriptors_and_other_formats_are_no_faults_of_an_image(tmp_path):
    (tmp_path / "a.xml").write_text("<annotation/>")
    with few_descriptors(0):
        refused(OSError, "Too many open files", annotated_images.read_annotation, str(tmp_path / "a.xml"))
    coco = Coco(tmp_path, images=0)
    for number, image_format in enumerate(("BMP", "GIF", "TIFF", "WEBP"), start=1):
        coco.add_image(number, data=picture(image_format, seed=number))
    dataset = _read(coco.write())
    for record in dataset.splits["train"]:
        example = make_example(record, dataset.label_map.ids_by_text)
        assert (example.converted, example.image.format) == (True, "png")
        source = Image.open(record.path).convert("RGB")
        assert Image.open(io.BytesIO(example.image.data)).tobytes() == source.tobytes()


def quarantine_of(dataset, check_pixels=check_with_both):
    """Return (record, reason) of all that shards of `decode_images: all` put aside."""
    found = [(r.record, r.reason) for rejections in dataset.rejected.values() for r in rejections]
    for records in dataset.splits.values():
        for record in records:
            try:
                make_example(record, dataset.label_map.ids_by_text, check_pixels)
            except Rejected as e:
                found.append((record.source_id, e.reason))
    return found


@cases(*COCO_FAULTS, *VOC_FAULTS)
def test_a_record_with_one_fault_is_put_aside_for_it(tmp_path, *, reason):
    if reason in COCO_FAULTS:
        coco = Coco(tmp_path)
        COCO_FAULTS[reason](coco)
        assert [r for _, r in quarantine_of(_read(coco.write()))] == [reason]
        return
    path = write_voc(tmp_path)
    VOC_FAULTS[reason](tmp_path)
    assert quarantine_of(_read(path, "voc", {"train": "ImageSets/Main/train.txt"})) == [("b", reason)]


def test_a_sound_data_set_has_nothing_in_quarantine_and_a_bad_box_takes_its_whole_image_along(tmp_path):
    assert COCO_FAULTS.keys() | VOC_FAULTS.keys() == annotated_images.REASONS.keys(), "a case for each reason"
    coco, voc = _read(Coco(tmp_path / "coco").write()), _read(write_voc(tmp_path / "voc"), "voc")
    assert quarantine_of(coco) == quarantine_of(voc) == []
    assert len(coco.splits["train"]) == 6 and len(voc.splits["train"]) == 4
    path = write_voc(tmp_path / "voc", b=voc_xml("b", boxes=[(1, 1, 9, 9), (4, 4, 4, 4)]))
    assert quarantine_of(_read(path, "voc")) == [("b", "box_degenerate")]


def test_names_stay_in_the_folder_and_have_an_end(tmp_path):
    for name in ("", "..", "../a.jpg", "a/../../b.jpg", "/etc/passwd", "http://host/a.jpg", "a\0.jpg"):
        refused(Rejected, "leaves the image folder", annotated_images.path_inside, "images", name)
    assert annotated_images.path_inside("images", "a/../b..c.jpg") == "images/a/../b..c.jpg"
    assert annotated_images.checked_text("x" * 4_096, "a class") == "x" * 4_096
    message = r"a class in 4,096 characters at most, found 'x+'\.\.\. of 1,000,000"
    refused(Rejected, message, annotated_images.checked_text, "x" * 1_000_000, "a class")
    # An id that no record can hold is put aside.
    coco = Coco(tmp_path)
    coco.images += [{"id": "\ud800", "file_name": "1.jpg"}, {"id": "\ud801"}]
    for splits in ({"train": "annotations.json"}, {"train": 0.5, "eval": 0.5}):
        found = quarantine_of(_read(coco.write(), splits=splits), None)
        assert sorted(found) == [("", "malformed_record"), ("\ud800", "malformed_record")]


WIDTH, HEIGHT = 40, 30


def _object(box, area=0.0, **fields):
    values = {"crowd": 0, "difficult": None, "truncated": None, "pose": None, **fields}
    values |= {"name": "cat", "box": tuple(map(float, box)), "area": area, "label": "annotation 1"}
    return annotated_images.AnnotatedObject(**values)


def _record(tmp_path, objects, data=None, size=(WIDTH, HEIGHT), **fields):
    (tmp_path / "a.jpg").write_bytes(data or picture())
    return AnnotatedImage("1", "a.jpg", str(tmp_path / "a.jpg"), *size, objects, **fields)


@cases(
    ((-1.01, 0, 5, 5), "box_outside"), ((0, 0, 5, 31.5), "box_outside"), ((40, 2, 41, 9), "box_outside"),
    ((-1, 2, 0, 9), "box_outside"), ((100, 100, 120, 120), "box_outside"), ((5, 5, 4, 9), "box_inverted"),
    ((5, 9, 8, 5), "box_inverted"), ((5, 5, 5, 9), "box_degenerate"), ((5, 5, 9, 5), "box_degenerate"),
    ((math.nan, 0, 5, 5), "box_not_finite"), ((0, 0, math.inf, 5), "box_not_finite"),
    ((-1e39, 0, 5, 5), "box_not_finite"),
)  # fmt: skip
def test_a_box_that_means_no_part_of_the_image_is_refused(*, box, reason):
    assert refused(Rejected, "annotation 1", check_box, _object(box), WIDTH, HEIGHT).reason == reason


@settings(deadline=None)
@given(st.lists(st.floats(width=32), min_size=4, max_size=4), st.floats())
def test_any_numbers_give_a_box_inside_the_image_or_a_reason(numbers, area):
    try:
        xmin, ymin, xmax, ymax = box = check_box(_object(numbers, area), WIDTH, HEIGHT)
    except Rejected as e:
        assert e.reason in annotated_images.BOX_FAULTS
    else:
        assert 0 <= xmin < xmax <= WIDTH and 0 <= ymin < ymax <= HEIGHT
        assert max(abs(a - b) for a, b in zip(box, numbers, strict=True)) <= ROUNDING


def test_jpeg_bytes_pass_through_and_other_formats_are_converted_and_turned(tmp_path):
    assert check_box(_object((-1, 2, 41, 9)), WIDTH, HEIGHT) == (0, 2, 40, 9)
    assert check_box(_object((3, -0.4, 9, 30.6)), WIDTH, HEIGHT) == (3, 0, 9, 30)
    example = make_example(_record(tmp_path, [_object((-0.5, 0, 5, 5)), _object((1, 1, 5, 5))]), {"cat": 4})
    assert example.image.data == picture() and picture() in example.data
    assert example.image.sha256 == hashlib.sha256(picture()).hexdigest()
    assert (example.clipped, example.converted, example.image.format) == (1, False, "jpeg")
    record = _record(tmp_path, [_object((0, 0, 4, 6))], picture("WEBP", exif=exif(8)))
    example = make_example(record, {"cat": 4})
    assert (example.image.format, example.image.width, example.image.height) == ("png", 30, 40)
    assert example.boxes == [(0, 36, 6, 40)] and example.turned and example.converted


@cases(
    ((40, 30), "upright", (2, 3, 10, 20), True), ((30, 40), "stored", (10, 2, 27, 10), False),
    ((0, 0), "upright", (10, 2, 27, 10), False), ((0, 0), "stored", (2, 3, 10, 20), True),
)  # fmt: skip
def test_a_turned_image_is_stored_upright_however_it_was_annotated(tmp_path, *, size, unsaid, box, stored):
    record = _record(tmp_path, [_object(box)], picture(exif=exif(6)), size)
    example = make_example(record, {"cat": 4}, exif_annotations=unsaid)
    assert (example.image.width, example.image.height, example.boxes) == (30, 40, [(10, 2, 27, 10)])
    assert (example.turned, example.annotated_as_stored, example.converted) == (True, stored, False)
    assert _total(example, "turned_images") == 1 and _total(example, "annotated_as_stored") == stored


@cases(("stored", 40, 30), ("upright", 30, 40))
def test_fractions_are_of_the_picture_that_the_setting_says_was_annotated(tmp_path, *, unsaid, columns, rows):
    def placed(columns, rows, size):
        left, top, right, bottom = 0.05 * columns, 0.1 * rows, 0.25 * columns, 0.6 * rows
        mask = Polygons([[left, top, right, top, right, bottom]])
        item = AnnotatedObject(
            "cat", (left, top, right, bottom), label="line 1", mask=mask, keypoints=[(left, top, 2)]
        )
        return _record(tmp_path, [item], picture(exif=exif(6)), size, in_fractions=not size[0])

    names = make_layout({"cat": ["nose"]})
    made = make_example(placed(1, 1, (0, 0)), {"cat": 4}, keypoints=names, exif_annotations=unsaid)
    assert made.annotated_as_stored == (unsaid == "stored")
    assert made.data == make_example(placed(columns, rows, (columns, rows)), {"cat": 4}, keypoints=names).data


def _features(example):
    return dict(parse_example(example.data).features.feature)


@cases(*range(2, 9))
def test_masks_turn_with_the_pixels(tmp_path, *, orientation):
    item = _object((4, 6, 20, 16), mask=Polygons([[4, 6, 20, 6, 20, 16, 4, 16]]))
    record = _record(tmp_path, [item], picture(exif=exif(orientation)), (0, 0))
    example = make_example(record, {"cat": 4}, exif_annotations="stored")
    (png,) = values_of(_features(example)["image/object/mask"])
    mask = np.asarray(Image.open(io.BytesIO(png)))
    rows, columns = np.nonzero(mask)
    assert mask.shape == (example.image.height, example.image.width)
    assert example.boxes == [(columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)]


def test_what_is_no_fault_of_an_image_is_raised_and_what_is_no_file_or_class_refused(tmp_path):
    record = _record(tmp_path, [_object((1, 1, 5, 5))])
    refused(Rejected, "'cat' is not in the label map", make_example, record, {"dog": 1})
    with few_descriptors(0):
        refused(OSError, "Too many open files", make_example, record, {"cat": 1}, None)
    said = {"": "regular file", "a.jpg/x.jpg": "does not exist", "x" * 300: "too long"}
    for name, message in said.items():
        refused(Rejected, message, make_example, AnnotatedImage("1", "x", str(tmp_path / name), 0, 0, []), {})


def test_a_flag_of_any_object_is_kept_whichever_comes_first(tmp_path):
    plain = AnnotatedObject("cat", (1, 2, 9, 8))
    objects = [plain, plain._replace(difficult=1, truncated=1, pose="Left")]
    features = _features(make_example(_record(tmp_path, objects), {"cat": 1}))
    for flag in ("difficult", "truncated"):
        assert features[f"image/object/{flag}"] == int64_feature([0, 1])
    assert len(values_of(features["image/object/view"])) == 2


def _total(example, name):
    totals = Counts()
    totals.add(example)
    return totals.counts["total"][name]


def _recorded(tmp_path, image, box=(0.25, 0.5, 0.5, 1.0), **changed):
    """An image in a record of the Object Detection API, with its own keys, as its reader finds it."""
    sides = dict(zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True))
    texts = {"image/encoded": image, "image/filename": b"a.jpg", "image/source_id": b"7"}
    texts |= {"image/object/class/text": b"cat", "mine/camera": b"east"}
    numbers = {"image/height": 30, "image/width": 40, "image/object/class/label": 4}
    features = {key: bytes_feature([value]) for key, value in texts.items()}
    features |= {key: int64_feature([value]) for key, value in numbers.items()}
    features |= {f"image/object/bbox/{side}": float_feature([value]) for side, value in sides.items()}
    features |= {"image/object/class/multiclass_scores": float_feature([0.1, 0.9]), **changed}
    data = serialise_features(features)
    (tmp_path / "a.record").write_bytes(b"before" + data)
    part = FilePart(6, len(data), str(tmp_path / "a.record"))
    return RecordedExample(data, part, {}).image("a-0"), data, features


def test_a_record_is_stored_as_it_is_and_loses_nothing_when_something_in_it_changes(tmp_path):
    record, data, _ = _recorded(tmp_path, picture())
    example = make_example(record, {"cat": 4})
    assert example.data == data and example.passed_through and example.boxes == [(10, 15, 20, 30)]
    assert _total(example, "passed_through") == 1
    record, _, features = _recorded(tmp_path, picture(exif=exif(6)))
    example = make_example(record, {"cat": 9})
    found = _features(example)
    changed = {key for key in features if found[key] != features[key]}
    assert changed == {
        "image/encoded", "image/height", "image/width", "image/object/class/label",
        *(f"image/object/bbox/{side}" for side in ("xmin", "ymin", "ymax")),
    }  # fmt: skip
    assert found.keys() == features.keys() and not example.passed_through
    assert found["image/object/class/label"] == int64_feature([9])
    assert (example.image.width, example.image.height, example.turned) == (30, 40, True)


def test_a_record_whose_masks_or_boxes_cannot_be_kept_is_rejected(tmp_path):
    masks = {"image/object/mask": float_feature([1.0] * 1200)}
    record, *_ = _recorded(tmp_path, picture(exif=exif(6)), **masks)
    refused(Rejected, "masks as numbers", make_example, record, {"cat": 4})
    record, *_ = _recorded(tmp_path, picture(), (0.25, 0.5, 0.5, 1.2))
    refused(Rejected, "in an image of 40x30", make_example, record, {"cat": 4})
    record, *_ = _recorded(tmp_path, picture(), (0.25, 0.5, 0.5, 1.01))
    example = make_example(record, {"cat": 4})
    assert _features(example)["image/object/bbox/ymax"] == float_feature([1.0]) and example.clipped == 1


QUARANTINE = {
    "train": [Rejection("b.jpg", "2", "missing_image", "the file does not exist")] * 2,
    "eval": [Rejection("a.jpg", "1", "box_outside", 'said "so"')],
}


def test_a_list_is_written_as_lines_and_only_above_the_limit(tmp_path):
    write_quarantine(str(tmp_path / "list.jsonl"), QUARANTINE)
    lines = [json.loads(line) for line in (tmp_path / "list.jsonl").read_text().splitlines()]
    assert [line["split"] for line in lines] == ["eval", "train", "train"]
    outside = {"split": "eval", "file": "a.jpg", "record": "1", "reason": "box_outside"}
    assert lines[0] == {**outside, "detail": 'said "so"'}
    found = count_reasons([*QUARANTINE["eval"], *QUARANTINE["train"]])
    assert list(found.items()) == [("missing_image", 2), ("box_outside", 1)]
    path = subfolder(tmp_path, 1) / "list.jsonl"
    check_limit(QUARANTINE, 300, 0.01, str(path))
    check_limit({"train": []}, 300, 0.0, str(path))
    assert not path.exists()
    text = str(refused(DataError, "at most 1.00%", check_limit, QUARANTINE, 299, 0.01, str(path)))
    for part in (str(path), "3 of 299", "missing_image 2, box_outside 1", "quarantine_limit"):
        assert part in text
    assert len(path.read_text().splitlines()) == 3
