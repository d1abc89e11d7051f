"""Labelled images as the checks read them, and what one pass gathers of them."""

import dataclasses
import hashlib
import io
import threading

import numpy as np
from PIL import Image
from pycocotools import mask as coco_mask
from tensorflow.core.example.example_pb2 import Example

from detection_core.artifacts.data_findings import Finding, FoundExample, OtherExample
from detection_core.data.record_format import write_record
from detection_core.datasets.encoding import find_decoding
from detection_core.errors import ConfigError, DataError
from detection_core.evaluation.drawing import class_colour
from detection_core.optional.near_duplicates.perceptual_hash import hash_image_file
from detection_core.tasks.examples import count_split
from detection_core.validation import labelled_images, sample_pictures, split_pass
from detection_core.validation.checks import CHECKS, EXAMPLES_LISTED, FindingList, Limit, make_limits
from detection_core.validation.duplicates import (
    AnnotationChecker,
    Pair,
    check_copies,
    objects_digest,
    same_boxes,
)
from detection_core.validation.labelled_images import folder_of, parse_record, read_some, read_split
from detection_core.validation.sample_pictures import (
    box_of,
    complete_examples,
    draw_image,
    pixels_of,
)
from tests.detection_core.validation.samples import LABELS, findings_of, labelled
from tests.support.cases import cases, refused
from tests.support.dataset_files import subfolder
from tests.support.features import bytes_feature, float_feature, int64_feature, serialise_features
from tests.support.made_examples import CLASSES, Made, encode, picture_bytes, write_examples

BOX, MOVED, OTHER = (0.1, 0.1, 0.5, 0.5), (0.1, 0.1, 0.5, 0.503), (0.6, 0.6, 0.9, 0.9)


def test_checks_warn_until_the_settings_say_otherwise_and_are_ordered_by_severity():
    limits = make_limits({})
    assert limits.keys() == CHECKS.keys() and {limit.severity for limit in limits.values()} == {"warn"}
    changed = make_limits({"leakage": {"severity": "stop"}, "rare_class": {"threshold": 3}})
    assert changed["leakage"] == Limit(threshold=CHECKS["leakage"].threshold, severity="stop")
    assert changed["rare_class"] == Limit(threshold=3.0, severity="warn")
    findings = _list(duplicates={"severity": "stop"}, empty_images={"severity": "off"})
    for check in ("leakage", "duplicates", "empty_images"):
        findings.add(check, "eval", "found", measured=0.5)
    assert [f.id for f in findings.findings()] == ["duplicates:eval", "leakage:eval"]
    outcomes = findings.outcomes()
    assert (outcomes["duplicates"], outcomes["leakage"], outcomes["empty_images"]) == ("stop", "warn", "off")
    assert outcomes["rare_class"] == "passed"
    findings = _list()
    findings.not_made("leakage", "there is one split")
    assert findings.outcomes()["leakage"] == "there is one split"
    findings = _list(leakage={"threshold": 0.5})
    findings.add_above("leakage", "eval", "found", measured=0.5)
    assert findings.findings() == []
    findings.add_above("leakage", "test", "found", measured=0.51)
    assert [(f.measured, f.threshold) for f in findings.findings()] == [(0.51, 0.5)]
    findings = _list()
    many = [FoundExample(split="eval", source_id=str(i), record=i) for i in range(500)]
    findings.add("leakage", "eval", "found", measured=1.0, count=500, examples=many)
    [finding] = findings.findings()
    assert len(finding.examples) == EXAMPLES_LISTED and finding.count == 500


@cases(
    ({"leekage": {}}, "found 'leekage'; did you mean leakage?"),
    ({"leakage": {"limit": 1}}, "expected threshold and severity, found 'limit'"),
    ({"leakage": {"threshold": 2}}, "expected 0 to 1 "), ({"leakage": {"threshold": "much"}}, "found 'much'"),
    ({"leakage": {"threshold": True}}, "found True"), ({"leakage": {"threshold": float("nan")}}, "found nan"),
    ({"leakage": {"severity": "halt"}}, "expected one of off, warn, stop, found 'halt'"),
)  # fmt: skip
def test_what_is_no_check_is_refused_with_its_place(*, given, message):
    assert refused(ConfigError, message.replace("?", r"\?"), make_limits, given).where.startswith("checks")


def _list(**given):
    return FindingList(make_limits(given))


def test_a_record_is_read_with_all_that_checks_look_at_and_what_it_lacks_is_none():
    boxes = ((0.125, 0.25, 0.5, 0.75), (0.0, 0.0, 1.0, 1.0))
    image = labelled(picture=3, boxes=boxes, classes=("dog", "cat"), crowd=(0, 1), source_id="a")
    assert (image.source_id, image.height, image.width) == ("a", 48, 64)
    np.testing.assert_array_equal(image.boxes, np.asarray(boxes, np.float32))
    assert image.classes.tolist() == [1, 0] and image.is_crowd.tolist() == [False, True]
    assert image.encoded == picture_bytes(3) and image.sha256 == hashlib.sha256(image.encoded).digest()
    image = labelled(boxes=(), classes=())
    assert image.boxes.shape == (0, 4) and image.classes.shape == (0,)
    assert parse_record(encode(Made(classes=("cow",)), 0, ("cow",)), 0, LABELS).classes.tolist() == [-1]
    for side in (-1, 0, 1 << 40):
        features = {"image/height": int64_feature([side]), "image/width": int64_feature([7])}
        image = parse_record(serialise_features(features), 0, LABELS)
        assert (image.height, image.width) == (0, 7), side


def _written(root):
    folder = write_examples(root, {"train": [Made(source_id=str(i)) for i in range(5)]})
    (path,) = (root / "Split-train").iterdir()
    return path, count_split(folder, "train")


def test_a_damaged_file_or_record_is_named(tmp_path):
    path, counts = _written(tmp_path)
    found = list(read_split(counts, LABELS))
    assert [(i.record, i.source_id) for i in found] == [(i, str(i)) for i in range(5)]
    data = path.read_bytes()
    path.write_bytes(data[:-10] + bytes([data[-10] ^ 255]) + data[-9:])
    error = refused(DataError, "checksum", lambda: list(read_split(counts, LABELS)))
    assert "examples-00000" in error.where
    path.write_bytes(data)
    with open(path, "ab") as file:
        write_record(file, b"\xff\xff not an example")
    error = refused(DataError, "no tf", lambda: list(read_split(counts, LABELS)))
    assert "record 5" in error.where


def test_folders_spans_and_splits_are_told_and_records_not_asked_for_not_parsed(tmp_path):
    path, _ = _written(tmp_path)
    counts = {"missing": 10, str(path): 5}
    assert {i.record: i.source_id for i in read_some(counts, LABELS, {11, 13})} == {11: "1", 13: "3"}
    assert list(read_some(counts, LABELS, ())) == []
    # One that is no example at all is passed over.
    with open(path, "wb") as file:
        write_record(file, b"no example")
        write_record(file, encode(Made(source_id="after"), 0))
    assert [image.record for image in read_some({str(path): 2}, LABELS, {1})] == [1]
    below = subfolder(tmp_path, 1)
    folders = {"anna/day 1/a.png": "anna/day 1", "anna\\a.png": "anna", "a.png": ""}
    assert {name: folder_of(labelled(filename=name)) for name in folders} == folders
    image = labelled(source_id="2026-11-21/7.jpg")
    assert labelled_images.span_of(image, ("2026-11-20", "2026-11-21")) == "2026-11-21"
    assert labelled_images.span_of(image, ()) == ""
    write_examples(below, {"eval": [Made()], "train": [Made()], "a": [Made()]})
    assert labelled_images.split_names(str(below)) == ["train", "a", "eval"]


def _pass(tmp_path, images, *, split="train", spans=(), hashes=False, tiles=()):
    write_examples(tmp_path, {split: images})
    path = next(tmp_path.glob("Split-*/*"))
    with open(path, "ab") as file:
        for number, made in enumerate(tiles):
            record = Example.FromString(encode(made, number))
            record.features.feature["image/tile"].int64_list.value.extend([0, 0])
            write_record(file, record.SerializeToString())
    given = {"label_map": LABELS, "spans": spans, "hashes": hashes, "decoding": find_decoding("none")}
    options = split_pass.PassOptions(**given, images={split: len(images) + len(tiles)})
    found = split_pass.read_all([split_pass.RecordPart(split, str(path), 0)], options)
    return found.splits[split], found.folders.statistics()


def test_splits_are_compared_by_whole_images_and_anchors_fit_to_tiles_too(tmp_path):
    images = [Made(source_id="1/a", filename="x/a.png"), Made(source_id="1/b", filename="y/b.png")]
    tiles = [Made(source_id=f"1/a@{n},0", filename="x/a.png") for n in range(5)]
    found, folders = _pass(tmp_path, images, tiles=tiles, spans=("1",))
    assert (found.images.statistics().images, found.spans["1"].statistics().images) == (2, 2)
    assert {name: sample.images for name, sample in folders.items()} == {"x": 1, "y": 1}
    assert len(found.boxes.drawn().boxes) == found.features.statistics().datasets[0].num_examples == 7


def test_everything_is_gathered_in_one_pass_by_span_and_by_folder(tmp_path):
    images = [Made(picture=n) for n in (1, 2, 1)]
    found, _ = _pass(tmp_path, images, hashes=True)
    digests, objects, hashes = found.by_record()
    assert hashes[0] == hashes[2] != hashes[1]
    assert digests[0] == digests[2] and objects[0] == objects[1]
    assert len(found.boxes.drawn().boxes) == found.features.statistics().datasets[0].num_examples == 3
    images = [Made(source_id=name) for name in ("1/a", "1/b", "2/a", "3/a")]
    found, _ = _pass(tmp_path / "train", images, spans=("1", "2"))
    assert {span: of_span.statistics().images for span, of_span in found.spans.items()} == {"1": 2, "2": 1}
    assert found.images.statistics().images == 4
    assert _pass(tmp_path / "eval", images, split="eval", spans=("1", "2"))[0].spans == {}
    images = [Made(filename=f"{name}/{n}.png") for name in ("anna", "ben") for n in range(3)]
    _, folders = _pass(tmp_path / "few", images)
    assert {name: sample.images for name, sample in folders.items()} == {"anna": 3, "ben": 3}
    many = [Made(filename=f"{n}/a.png", picture=1) for n in range(split_pass.MOST_FOLDERS + 1)]
    assert _pass(tmp_path / "many", many)[1] == {}
    assert _pass(tmp_path / "one", [dataclasses.replace(images[0])] * 3)[1] == {}


def _finding(*examples):
    said = {"id": "leakage:eval", "check": "leakage", "severity": "warn", "message": "m"}
    return Finding(**said, measured=1, threshold=0, examples=list(examples))


def _example(record, other=None, split="train"):
    return FoundExample(split=split, source_id="", record=record, other=other)


def _complete(tmp_path, *findings):
    made = [Made(source_id=f"id {i}") for i in range(30)]
    made[3] = Made(source_id="broken", data=b"no image")
    folder = write_examples(tmp_path / "examples", {"train": made, "eval": [Made(source_id="other")]})

    def read(split, numbers):
        return read_some(count_split(folder, split), LABELS, numbers)

    return complete_examples(findings, read, LABELS.names, str(tmp_path / "out"))


def test_examples_get_ids_and_pictures_where_they_decode_and_findings_without_read_nothing(tmp_path):
    [finding] = _complete(tmp_path, _finding(*(_example(i) for i in range(4, 20))))
    assert [e.source_id for e in finding.examples] == [f"id {i}" for i in range(4, 20)]
    assert [bool(e.picture) for e in finding.examples] == [True] * 6 + [False] * 10
    picture = (tmp_path / "out" / "pictures" / finding.examples[0].picture).read_bytes()
    assert Image.open(io.BytesIO(picture)).size == (320, 240)
    below = subfolder(tmp_path, 1)
    [finding] = _complete(below, _finding(_example(3)))
    assert (finding.examples[0].source_id, finding.examples[0].picture) == ("broken", "")
    below = subfolder(tmp_path, 2)
    [finding] = _complete(below, _finding(_example(2, OtherExample(split="eval", source_id="", record=0))))
    [example] = finding.examples
    assert example.other.source_id == "other"
    picture = (below / "out" / "pictures" / example.picture).read_bytes()
    assert Image.open(io.BytesIO(picture)).width > 2 * 240

    def read(split, numbers):
        raise AssertionError("nothing is to be read")

    assert complete_examples([_finding()], read, [], "/nowhere") == [_finding()]


def test_a_card_counts_images_and_objects_by_class_and_split(tmp_path):
    two = Made(boxes=((0.1, 0.1, 0.5, 0.5), (0.2, 0.2, 0.9, 0.9)), classes=("cat", "dog"), crowd=(0, 1))
    splits = {"train": [two, Made(boxes=())], "eval": [Made()]}
    cards = {
        split: _pass(tmp_path / split, images, split=split)[0].card() for split, images in splits.items()
    }
    assert cards["train"].classes == {"cat": 1, "dog": 1} and cards["train"].empty_images == 1
    card = split_pass.counted_card(LABELS, cards)
    assert [(c.id, c.name, c.objects) for c in card.classes] == [(1, "cat", 2), (2, "dog", 1)]
    assert (card.total.images, card.total.objects, card.total.empty_images) == (3, 3, 1)


def _images(count, broken=()):
    for number in range(count):
        data = picture_bytes(number % 7)
        yield labelled(number, data=data[: len(data) // 2] if number in broken else data)


def _look(count, decode, *, hashes=False, broken=()):
    files = split_pass.ImageFiles(count, find_decoding(decode), hashes=hashes)
    images, found = zip(*files.looked_at(_images(count, broken)), strict=True)
    assert [image.record for image in images] == list(range(count))
    return files, found, findings_of(files.report, "train")


def test_images_are_decoded_as_asked_for_and_damaged_ones_found():
    files, hashes, findings = _look(100, "none", hashes=True)
    assert list(hashes) == [hash_image_file(picture_bytes(number % 7)) for number in range(100)]
    assert files.decoded == 100 and findings.findings() == [] and _look(100, "all")[0].decoded == 100
    assert _look(100, "sample")[0].decoded == 16
    files, hashes, findings = _look(100, "none")
    assert files.decoded == 0 and set(hashes) == {None}
    assert findings.outcomes()["undecodable_images"] == "no image was decoded"
    for decode, hashes in (("all", False), ("all", True), ("none", True)):
        files, found, findings = _look(10, decode, hashes=hashes, broken=(3, 7))
        [finding] = findings.findings()
        assert (finding.check, finding.measured) == ("undecodable_images", 0.2)
        assert [e.record for e in finding.examples] == [3, 7] and "decode" in finding.examples[0].note
        assert found[3] is None and len(found) == 10
    files = split_pass.ImageFiles(10, find_decoding("all"), hashes=True)
    for _ in files.looked_at(_images(10)):  # as if interrupted
        break
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ahead")]


def test_an_example_is_drawn_and_the_box_that_is_meant_is_in_its_colour(monkeypatch):
    image = labelled(boxes=((0.2, 0.2, 0.8, 0.8),))
    pixels = pixels_of(image)
    assert pixels.shape == (48, 64, 3)
    picture = draw_image(pixels, image, LABELS.names, sides=(240, 360))
    assert picture.size == (240, 180)
    bare = draw_image(pixels, labelled(boxes=()), LABELS.names, sides=(240, 360))
    unnamed = draw_image(pixels, image, LABELS.names, sides=(240, 360), label=1)
    shown = [np.asarray(p) for p in (picture, bare, unnamed)]
    assert (shown[0] != shown[1]).any() and (shown[0] != shown[2]).any() and (shown[1] != shown[2]).any()
    assert pixels_of(labelled(data=b"no image")) is None
    assert box_of(np.array([0.0, 0.25, 0.5, 1.0], np.float32)) == (0.0, 0.25, 0.5, 1.0)
    # The others are grey and have no name, so that a finding's picture shows what it is about.
    image = labelled(boxes=((0.1, 0.1, 0.4, 0.4), (0.5, 0.5, 0.9, 0.9)), classes=("cat", "cat"))
    meant = {"sides": (640, 640), "box": [0.5, 0.5, 0.9, 0.9]}
    picture = np.asarray(draw_image(pixels_of(image), image, LABELS.names, **meant))
    colour = np.asarray(class_colour(0))
    is_coloured = (np.abs(picture.astype(int) - colour).sum(axis=2) < 12).nonzero()
    assert len(is_coloured[0]) and is_coloured[0].min() > 0.4 * 480 and is_coloured[1].min() > 0.4 * 640
    monkeypatch.setattr(sample_pictures, "draw_boxes", lambda _, boxes: [(b.text, b.colour) for b in boxes])
    drawn = draw_image(pixels_of(image), image, LABELS.names, **meant)
    assert drawn == [("cat", None), ("", (150, 150, 150))]


def test_masks_and_keypoints_of_a_record_are_drawn():
    made = Made(boxes=((0.25, 0.25, 0.75, 0.75),))
    mask: np.ndarray = np.zeros((48, 64), np.uint8)
    mask[12:36, 16:32] = 1  # the left half of the box
    shapes = {
        "image/object/mask": bytes_feature([_png(mask)]),
        "image/object/keypoint/y": float_feature([0.5, 0.1]),
        "image/object/keypoint/x": float_feature([0.625, 0.1]),
        "image/object/keypoint/visibility": int64_feature([2, 0]),
    }
    plain, image = (parse_record(encode(made, 1) + serialise_features(f), 1, LABELS) for f in ({}, shapes))
    assert image.keypoints[0, 0].tolist() == [0.5, 0.625] and np.isnan(image.keypoints[0, 1]).all()
    pixels = pixels_of(image)
    drawn = [np.asarray(draw_image(pixels, i, LABELS.names, sides=(640, 640))) for i in (plain, image)]
    changed = (drawn[0] != drawn[1]).any(axis=2)
    assert changed[130:350, 175:310].all() and changed[240, 400] and not changed[:110].any()
    small = shapes | {"image/object/mask": bytes_feature([_png(mask[1:])])}
    other = parse_record(encode(made, 1) + serialise_features(small), 1, LABELS)
    picture = np.asarray(draw_image(pixels, other, LABELS.names, sides=(640, 640)))
    assert (picture[130:350, 175:310] == drawn[0][130:350, 175:310]).all()


def _png(values):
    stream = io.BytesIO()
    Image.fromarray(values).save(stream, "PNG")
    return stream.getvalue()


def _checker(*images):
    checker = AnnotationChecker(CLASSES)
    for number, made in enumerate(images):
        checker.add(labelled(number, made))
    return checker


def _found(*images):
    findings = findings_of(_checker(*images).report, "train")
    return {finding.check: finding for finding in findings.findings()}


def test_same_boxes_overlap_and_have_an_area():
    random = np.random.default_rng(0)
    corners, sides = random.uniform(0, 0.5, (30, 2)), random.uniform(0.1, 0.5, (30, 2))
    boxes = np.concatenate([corners, corners + sides], axis=1)
    boxes[20:] = boxes[:10] + random.uniform(0, 0.01, (10, 4))
    as_coco = np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], axis=1)
    expected = (coco_mask.iou(as_coco, as_coco, [0] * 30) >= 0.9) & ~np.eye(30, dtype=bool)
    found = same_boxes(boxes, overlap=0.9)
    assert (found == expected).all() and found.any()
    flat = (0.5, 0.5, 0.5, 0.5)
    assert same_boxes(np.asarray([flat, flat, BOX])).sum() == 0


def test_one_box_twice_is_a_repetition_of_two_classes_a_contradiction_and_of_a_crowd_fine():
    found = _found(Made(), Made(boxes=(BOX, OTHER, MOVED), classes=("cat", "cat", "dog")))
    assert list(found) == ["contradictions"]
    finding = found["contradictions"]
    assert (finding.measured, [e.record for e in finding.examples]) == (0.5, [1])
    assert finding.examples[0].note == "cat and dog"
    found = _found(Made(boxes=(BOX, MOVED, MOVED, OTHER), classes=("cat",) * 4))
    assert list(found) == ["repeated_boxes"] and found["repeated_boxes"].examples[0].note == "2 boxes again"
    of_a_crowd = Made(boxes=(BOX, BOX), classes=("cat", "dog"), crowd=(0, 1))
    many = [Made(boxes=(BOX, MOVED) * 2, classes=("cat", "cat", "dog", "dog"))] * (EXAMPLES_LISTED + 2)
    for finding in _found(*many).values():
        assert (finding.measured, len(finding.examples)) == (1.0, EXAMPLES_LISTED)
    assert _found() == {}
    others = Made(boxes=(BOX, OTHER), classes=("cat", "dog")), Made(boxes=(BOX,), classes=("cat",))
    for made in (*others, of_a_crowd, Made(boxes=(), classes=())):
        assert _found(made) == {}, made


def test_copies_that_are_annotated_differently_are_found():
    two = Made(boxes=(BOX, OTHER), classes=("cat", "dog"))
    swapped = Made(boxes=(OTHER, BOX), classes=("dog", "cat"))
    made = {"train": (two, two), "eval": (swapped, Made(boxes=(BOX,)))}
    digests = {split: [objects_digest(labelled(made=one)) for one in each] for split, each in made.items()}
    pairs = [Pair(split="eval", record=record, other_split="train", other_record=record) for record in (0, 1)]
    [finding] = findings_of(check_copies, pairs, digests).findings()
    assert (finding.measured, finding.examples[0].record) == (0.5, 1)
    assert findings_of(check_copies, [], digests).findings() == []
