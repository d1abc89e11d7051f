import hashlib

import numpy as np

from detection_core.config.input_paths import split_pattern
from detection_core.data.encode import int64_feature, serialise_features
from detection_core.data.record_writer import write_record
from detection_core.errors import DataError
from detection_core.validation import labelled_images
from detection_core.validation.labelled_images import folder_of, parse_record, read_some, read_split
from tests.detection_core.validation.samples import LABELS, labelled
from tests.support.cases import refused
from tests.support.dataset_files import subfolder
from tests.support.made_examples import Made, encode, picture_bytes, write_examples


def test_a_record_is_read_with_all_that_checks_look_at_and_what_it_lacks_is_none():
    boxes = ((0.125, 0.25, 0.5, 0.75), (0.0, 0.0, 1.0, 1.0))
    image = labelled(picture=3, boxes=boxes, classes=("dog", "cat"), crowd=(0, 1), source_id="a")
    assert (image.source_id, image.height, image.width) == ("a", 48, 64)
    np.testing.assert_array_equal(image.boxes, np.asarray(boxes, np.float32))
    assert image.classes.tolist() == [1, 0] and image.is_crowd.tolist() == [False, True]
    assert image.encoded == picture_bytes(3)
    assert image.sha256 == hashlib.sha256(image.encoded).digest()
    image = labelled(boxes=(), classes=())
    assert image.boxes.shape == (0, 4) and image.classes.shape == (0,)
    other = parse_record(encode(Made(classes=("cow",)), 0, ("cow",)), 0, LABELS)
    assert other.classes.tolist() == [-1]
    for side in (-1, 0, 1 << 40):
        features = {"image/height": int64_feature([side]), "image/width": int64_feature([7])}
        image = parse_record(serialise_features(features), 0, LABELS)
        assert (image.height, image.width) == (0, 7), side


def _written(root):
    folder = write_examples(root, {"train": [Made(source_id=str(i)) for i in range(5)]})
    (path,) = (root / "Split-train").iterdir()
    return path, split_pattern(folder, "train")


def test_a_damaged_file_or_record_is_named(tmp_path):
    path, pattern = _written(tmp_path)
    found = list(read_split(pattern, LABELS))
    assert [(i.record, i.source_id) for i in found] == [(i, str(i)) for i in range(5)]
    data = path.read_bytes()
    path.write_bytes(data[:-10] + bytes([data[-10] ^ 255]) + data[-9:])
    error = refused(DataError, "checksum", lambda: list(read_split(pattern, LABELS)))
    assert "examples-00000" in error.where
    path.write_bytes(data)
    with open(path, "ab") as file:
        write_record(file, b"\xff\xff not an example")
    error = refused(DataError, "no tf", lambda: list(read_split(pattern, LABELS)))
    assert "record 5" in error.where


def test_folders_spans_and_splits_are_told_and_records_not_asked_for_not_parsed(tmp_path):
    path, pattern = _written(tmp_path)
    assert {i.record: i.source_id for i in read_some(pattern, LABELS, {1, 3})} == {1: "1", 3: "3"}
    assert list(read_some(pattern, LABELS, ())) == []
    # One that is no example at all is passed over.
    with open(path, "wb") as file:
        write_record(file, b"no example")
        write_record(file, encode(Made(source_id="after"), 0))
    assert [image.record for image in read_some(pattern, LABELS, {1})] == [1]
    below = subfolder(tmp_path, 1)
    folders = {"anna/day 1/a.png": "anna/day 1", "anna\\a.png": "anna", "a.png": ""}
    assert {name: folder_of(labelled(filename=name)) for name in folders} == folders
    image = labelled(source_id="2026-11-21/7.jpg")
    assert labelled_images.span_of(image, ("2026-11-20", "2026-11-21")) == "2026-11-21"
    assert labelled_images.span_of(image, ()) == ""
    write_examples(below, {"eval": [Made()], "train": [Made()], "a": [Made()]})
    assert labelled_images.split_names(str(below)) == ["train", "a", "eval"]
