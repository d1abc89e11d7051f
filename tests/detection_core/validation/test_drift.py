"""Drift between spans and splits, and the pictures of a sample."""

import math
import os

import numpy as np
import pytest
from PIL import Image
from scipy import stats
from tensorflow.core.example.example_pb2 import Example

from benchmarks.drift_false_alarms import draw_images, false_alarms
from detection_core.artifacts.data_statistics import (
    DataStatistics,
    keep_spans,
    read_spans,
    span_digests,
    span_names,
)
from detection_core.artifacts.pictures import SAMPLE, SMALLEST, list_pictures
from detection_core.validation import drift
from detection_core.validation.drift import (
    LEAST_IMAGES,
    check_differences,
    check_drift,
    check_vanished,
    find_drift,
)
from detection_core.validation.labelled_images import LabelledImage
from detection_core.validation.sample_pictures import SamplePictures
from tests.detection_core.validation.samples import findings_of, jpeg, natural
from tests.support.cases import cases
from tests.support.dataset_files import encoded, subfolder
from tests.support.features import bytes_feature, serialise_features

NAMES = ("span 2", "span 1")
RATES = {"cat": 0.5, "dog": 0.3, "fox": 0.2}
CATS, DOGS = {"cat": 0.9, "dog": 0.1}, {"cat": 0.1, "dog": 0.9}
ONE, TWO = (draw_images(40, {"cat": 1.0}, seed=seed) for seed in (1, 2))


def _found(check, sample, reference, **given):
    named = (check_vanished,) if check == "vanished_class" else (check_drift, check)
    findings = findings_of(*named, NAMES, sample, reference, **given)
    return {f.check: f for f in findings.findings()}, findings.outcomes()


def test_changes_of_class_size_and_place_are_found_unless_small_or_of_few_images():
    before = draw_images(300, RATES, seed=1)
    after = draw_images(300, {"cat": 0.1, "dog": 0.3, "fox": 0.6}, seed=2)
    found, _ = _found("span_drift", after, before)
    finding = found["span_drift"]
    assert finding.id == "span_drift:span 2 against span 1" and finding.measured > 0.02
    assert "images with fox" in finding.message and "class (above all" in finding.message
    after = draw_images(300, RATES, seed=2, size=0.05, centre=0.2)
    names = {each.name for each in find_drift(after, before, divergence=0.02)}
    assert {"size", "place"} <= names and "class" not in names
    before = draw_images(20_000, RATES, seed=1)
    after = draw_images(20_000, {"cat": 0.47, "dog": 0.31, "fox": 0.22}, seed=2)
    assert find_drift(after, before, divergence=0.0) and _found("span_drift", after, before)[0] == {}
    assert _found("span_drift", after, before, span_drift={"threshold": 0.0})[0]
    few = draw_images(LEAST_IMAGES - 1, {"fox": 1.0}, seed=1)
    found, outcomes = _found("span_drift", few, draw_images(500, {"cat": 1.0}, seed=2))
    assert found == {} and "30 are needed" in outcomes["span_drift"]


@cases((40, True), (40, False), (400, True))
def test_false_alarms_are_as_rare_as_promised(*, images, clustered):
    """One in a hundred at most; of 300 comparisons 9 or more would then be a chance of one in 500."""
    assert false_alarms(images, 300, clustered=clustered, divergence=0.0) <= stats.binom.ppf(0.998, 300, 0.01)


def test_the_chance_of_none_is_fishers_and_vanished_and_new_classes_are_told():
    for reference, sample, images_with in ((50, 20, 3), (1000, 400, 12), (10, 90, 1)):
        table = [[images_with, reference - images_with], [0, sample]]
        expected = stats.fisher_exact(table, alternative="greater").pvalue
        assert drift._chance_of_none(images_with, reference, sample) == pytest.approx(expected, rel=1e-9)
    assert math.isclose(drift._chance_of_none(0, 10, 10), 1.0)
    before = draw_images(500, {"cat": 0.9, "dog": 0.1}, seed=1)
    found, _ = _found("vanished_class", draw_images(500, {"cat": 1.0}, seed=2), before)
    assert list(found) == ["vanished_class"] and "dog" in found["vanished_class"].message
    # Of eight images it may be missing by chance.
    assert _found("vanished_class", draw_images(8, {"cat": 1.0}, seed=2), before)[0] == {}
    before = draw_images(100, {"cat": 1.0}, seed=1)
    found, _ = _found("vanished_class", draw_images(100, {"cat": 0.5, "dog": 0.5}, seed=2), before)
    assert list(found) == ["new_class"] and found["new_class"].count == 1


def _statistics(train=CATS, **fields):
    splits = {"train": draw_images(300, train, seed=1), "eval": draw_images(100, train, seed=2)}
    return DataStatistics(classes=["cat", "dog"], splits=splits, **fields)


def _found_between(statistics, baseline=None, earlier=None):
    findings = findings_of(check_differences, statistics, earlier or {}, baseline)
    return {f.id for f in findings.findings()}, findings.outcomes()


def test_alike_samples_differ_in_nothing_and_a_split_of_another_kind_is_found():
    found, outcomes = _found_between(_statistics())
    assert found == set() and outcomes["split_drift"] == "passed"
    assert outcomes["span_drift"] == "the training data are not of spans"
    assert "fifty folders" in outcomes["folder_drift"]
    assert outcomes["baseline_drift"] == "there are no statistics of a deployed model's data"
    assert _found_between(_statistics(), _statistics())[0] == set()
    splits = {**_statistics().splits, "eval": draw_images(100, DOGS, seed=6)}
    other = DataStatistics(classes=["cat", "dog"], splits=splits)
    [finding] = findings_of(check_differences, other, {}, None).findings()
    assert finding.id == "split_drift:eval against train"
    assert "% in train, " in finding.message and "% in eval" in finding.message
    assert " before" not in finding.message


def test_the_newest_span_is_compared_with_all_before_it_or_known_from_earlier():
    kinds = {"1": CATS, "2": CATS, "3": DOGS}
    spans = {name: draw_images(100, kind, seed=2 + int(name)) for name, kind in kinds.items()}
    assert _found_between(_statistics(spans=spans))[0] == {"span_drift:span 3 against spans 1 to 2"}
    del spans["1"]
    assert _found_between(_statistics(spans=spans))[0] == {"span_drift:span 3 against span 2"}
    alone = _statistics(spans={"9": draw_images(100, DOGS, seed=5)})
    found, outcomes = _found_between(alone)
    assert found == set() and outcomes["span_drift"] == "span 9 is the first that is known; see data.window"
    earlier = {"7": draw_images(100, CATS, seed=3), "8": draw_images(100, CATS, seed=4)}
    assert _found_between(alone, earlier=earlier)[0] == {"span_drift:span 9 against spans 7 to 8"}
    # What the examples still have of a span counts, not what was kept of it.
    both = _statistics(spans={"8": draw_images(100, DOGS, seed=8), "9": draw_images(100, DOGS, seed=5)})
    assert _found_between(both, earlier={"8": earlier["8"]})[0] == set()


def test_data_that_differ_from_the_deployed_model_s_or_other_folders_are_found():
    found, _ = _found_between(_statistics(train=DOGS), _statistics(train=CATS))
    assert found == {"baseline_drift:train against what the deployed model was trained on"}
    found, _ = _found_between(_statistics(train={"cat": 1.0}), _statistics())
    assert "vanished_class:train against what the deployed model was trained on" in found
    folders = {name: draw_images(100, CATS, seed=n) for n, name in enumerate("abc")}
    assert _found_between(_statistics(folders=folders))[0] == set()
    folders["b"] = draw_images(100, DOGS, seed=9)
    folders["d"] = draw_images(5, DOGS, seed=9)
    found, _ = _found_between(_statistics(folders=folders))
    assert "folder_drift:the folder b against the others" in found
    assert not any("folder d" in name for name in found)


def test_what_is_kept_of_spans_is_small_and_a_folder_that_cannot_be_used_stops_nothing(tmp_path, caplog):
    folder = str(tmp_path / "spans")
    assert span_names(folder) == [] and read_spans(folder, []) == {}
    keep_spans(folder, {"1": ONE, "2026-11-21": TWO})
    assert span_names(folder) == ["1", "2026-11-21"]
    found = read_spans(folder, ["2026-11-21", "1"])
    assert list(found) == ["2026-11-21", "1"] and found["1"] == ONE
    before = span_digests(folder, ["1", "2026-11-21"])
    keep_spans(folder, {"1": TWO})
    after = span_digests(folder, ["1", "2026-11-21"])
    assert before["1"] != after["1"] and before["2026-11-21"] == after["2026-11-21"]
    below = subfolder(tmp_path, 1)
    classes = {f"class {number}": 0.01 for number in range(100)}
    keep_spans(str(below), {"1": draw_images(200, classes, seed=1)})
    assert os.path.getsize(below / "1" / "span_statistics.json") < 20_000
    (tmp_path / "file").write_text("no folder")
    keep_spans(str(tmp_path / "file"), {"1": ONE})
    assert "span 1 is not remembered" in caplog.text and span_names(str(tmp_path / "file")) == []


@cases("{", '{"span": 1}', '{"statistics": {}}', "")
def test_a_damaged_file_leaves_its_span_out(tmp_path, caplog, *, text):
    keep_spans(str(tmp_path), {"1": ONE, "2": TWO})
    (tmp_path / "1" / "span_statistics.json").write_text(text)
    assert list(read_spans(str(tmp_path), ["1", "2", "3"])) == ["2"]
    assert "span 1" in caplog.text and "span 3" in caplog.text
    assert list(span_digests(str(tmp_path), ["2", "3"])) == ["2"]


def labelled(number, boxes, classes, crowd=None, data=None):
    data = jpeg(natural(np.random.default_rng(number)).resize((200, 100))) if data is None else data
    record = serialise_features({"image/encoded": bytes_feature([data])})
    named = {"record": number, "source_id": f"image {number}", "filename": f"{number}.jpg", "sha256": b""}
    named |= {"height": 100, "width": 200, "features": Example.FromString(record).features.feature}
    boxes, classes = np.asarray(boxes, np.float32).reshape(-1, 4), np.asarray(classes, np.int64)
    is_crowd = np.asarray(crowd if crowd is not None else [False] * len(classes))
    return LabelledImage(**named, boxes=boxes, classes=classes, is_crowd=is_crowd)


def written(folder, names, images, split="train"):
    """Draw the samples of images, and list them."""
    samples = SamplePictures(names)
    for image in images:
        samples.add(split, image)

    def read(_, numbers):
        return (image for image in images if image.record in numbers)

    samples.write(str(folder), read)
    return list_pictures(str(folder))


def test_every_class_has_pictures_and_images_are_not_repeated_without_need(tmp_path):
    classes = [[0, 0, 1] if number in (0, 40) else [0] for number in range(60)]
    images = [labelled(number, [[0.1, 0.1, 0.4, 0.4]] * len(c), c) for number, c in enumerate(classes)]
    found = [p for p in written(tmp_path, ["common", "rare", "never"], images) if p.kind == SAMPLE]
    assert [p.source_id for p in found if p.caption == "rare"] == ["train: image 0", "train: image 40"]
    captions = [p.caption for p in found]
    assert captions.count("common") == 8 and "never" not in captions
    assert {Image.open(p.file).size for p in found} == {(240, 120)}


def test_the_smallest_boxes_are_kept_and_crops_show_them(tmp_path):
    sides = np.random.default_rng(3).permutation(np.linspace(0.02, 0.5, 60))
    boxes = [[[0.5, 0.5, 0.5 + side, 0.5 + side / 2]] for side in sides]
    images = [labelled(number, box, [0]) for number, box in enumerate(boxes)]
    found = [p for p in written(tmp_path, ["a"], images, "eval") if p.kind == SMALLEST]
    assert [p.caption for p in found] == [f"a, {100 * side:.1f} px" for side in sorted(sides)[:12]]
    below = subfolder(tmp_path, 1)
    grey = np.full((100, 200, 3), 90, np.uint8)
    grey[40:44, 100:104] = 255
    data = encoded(Image.fromarray(grey), "PNG")
    images = [labelled(0, [[0.40, 0.50, 0.44, 0.52]], [0], data=data)]
    (picture,) = [p for p in written(below, ["dot"], images) if p.kind == SMALLEST]
    pixels = np.asarray(Image.open(picture.file))
    assert pixels.shape == (160, 160, 3)
    assert pixels[77:83, 77:83].min() > 215  # the dot, inside of the frame around it
    assert (pixels[..., 0].astype(int) - pixels[..., 2] > 60).sum() > 50  # the frame


def test_pictures_are_bounded_the_same_every_time_and_not_of_crowds(tmp_path):
    box = [[0.1, 0.1, 0.2, 0.2]]
    images = [labelled(0, box, [0], crowd=[True]), labelled(1, box, [0], data=b"no image")]
    images.append(labelled(2, np.zeros((0, 4)), []))
    found = written(tmp_path, ["a"], images)
    assert [(p.kind, p.source_id) for p in found] == [(SAMPLE, "train: image 0")]
    names = [f"class {i}" for i in range(400)]
    data = jpeg(natural(np.random.default_rng(0)).resize((200, 100)))
    images = [labelled(n, [[0.1, 0.1, 0.6, 0.6]] * 2, [n, n + 200], data=data) for n in range(200)]
    folders = [written(tmp_path / run, names, images) for run in ("one", "two")]
    one, two = ([(p.kind, p.source_id, p.caption, p.read()) for p in found] for found in folders)
    assert one == two
    assert sum(kind == SAMPLE for kind, *_ in one) == 160 and sum(kind == SMALLEST for kind, *_ in one) == 12
