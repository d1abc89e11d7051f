"""Intervals of resampled metrics, the demands that they are judged by, and what curves say of a split."""

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest

from detection_core.artifacts.evaluation import (
    COCO_METRICS,
    CURVES,
    MAP,
    MAP_50,
    category_metric,
    group_metric,
)
from detection_core.errors import ConfigError
from detection_core.evaluation import bootstrap
from detection_core.evaluation.bootstrap import Resampled, known_intervals, resample
from detection_core.evaluation.coco_matching import MatchTable
from detection_core.evaluation.coco_metrics import BOXES, SHAPE_KINDS, evaluate_coco
from detection_core.evaluation.curves import confusion_matrix, make_curves
from detection_core.evaluation.evaluated_split import EvaluatedSplit
from detection_core.evaluation.results import EvaluatedImage, best_score_threshold, match_image
from detection_core.evaluation.thresholds import judge, parse_thresholds, reasons_of
from tests.support.cases import cases, refused
from tests.support.evaluated_images import (
    NAMES,
    evaluated,
    make_detections,
    make_truth,
    random_images,
    shaped_images,
)

GROUPS = {"pets": ("cat", "dog")}
KINDS = (BOXES, *SHAPE_KINDS.values())
LEFT, RIGHT = [0.0, 0.0, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0]
PETS = dict(enumerate("abcde"))
LEVEL = "mAP.confidence: expected a level from 0.5 to 0.99"


def verdict(demands, value, baseline=None, resampled=None):
    metrics = {} if value is None else {MAP: value}
    baselines = None if baseline is None else {MAP: baseline}
    (found,) = judge(parse_thresholds({MAP: demands}, COCO_METRICS), metrics, baselines, resampled or {})
    return found


@cases(
    ({"lower_bound": 0.5}, 0.5, None, True),
    ({"lower_bound": 0.5}, 0.4999, None, False),
    ({"upper_bound": 0.5}, 0.5, None, True),
    ({"upper_bound": 0.5}, 0.5001, None, False),
    ({"min_change": 0.0}, 0.5, 0.5, True),
    ({"min_change": 0.0}, 0.5, 0.51, False),
    ({"min_change": 0.02}, 0.52, 0.5, True),  # 0.52 - 0.5 < 0.02 in floating point
    ({"min_change": -0.02}, 0.48, 0.5, True),
    ({"min_change": -0.02}, 0.47, 0.5, False),
    ({"min_change": 0.1}, 0.0, None, True),  # first run
    ({"min_change": 0.1}, 0.3, math.nan, True),
    ({"min_change": 0.1}, 0.3, -1.0, True),
)
def test_bounds(*, demands, value, baseline, passed):
    assert verdict(demands, value, baseline).passed is passed


def test_what_is_not_a_number_never_passes_and_a_verdict_says_what_is_wrong():
    demanded = {"lower_bound": -5}, {"upper_bound": 5}, {"min_change": -5}
    for demands, value in itertools.product(demanded, (None, math.nan, math.inf, -1.0)):
        found = verdict(demands, value, 0.1)
        assert not found.passed and found.value is None, (demands, value)
        assert "could not be measured" in found.text
    assert verdict({"lower_bound": 0.85}, 0.8123).text == f"{MAP} is 0.8123, below 0.85"
    fallen = f"{MAP} is 0.7000, the baseline's 0.7500: a change of -0.0500, less than -0.01"
    assert verdict({"min_change": -0.01}, 0.7, 0.75).text == fallen
    text = resampled_verdict({"min_change": -0.01}, 0.48, 0.5, 0.1).text
    assert text.endswith("less than -0.01; within the noise of this split (95 % interval -0.0675..+0.0275)")
    assert "noise" not in resampled_verdict({"min_change": -0.01}, 0.40, 0.5, 0.1).text


def resampled_verdict(demands, value, baseline, spread):
    """Judge a detector whose change, or value, spreads evenly over a width on resampled splits."""
    around = np.linspace(-spread / 2, spread / 2, 1001)
    before = None if baseline is None else np.full(1001, baseline)
    resampled = Resampled(values=value + around, baseline=before, images=1_000_000)
    return verdict(demands, value, baseline, {MAP: resampled})


@cases(
    ({"min_change": -0.01}, 0.48, 0.5, False, True),  # the number decides; the noise is reported
    ({"min_change": -0.01, "confidence": 0.95}, 0.48, 0.5, True, True),
    ({"min_change": -0.01, "confidence": 0.95}, 0.40, 0.5, False, False),
    ({"min_change": -0.01, "confidence": 0.5}, 0.46, 0.5, False, False),  # half of the width
    ({"min_change": -0.01, "confidence": 0.95}, 0.60, 0.5, True, False),
    ({"lower_bound": 0.5, "confidence": 0.95}, 0.48, None, True, True),
    ({"lower_bound": 0.5, "confidence": 0.95}, 0.40, None, False, False),
    ({"upper_bound": 0.5, "confidence": 0.95}, 0.52, None, True, True),
    ({"upper_bound": 0.5, "confidence": 0.95}, 0.60, None, False, False),
)
def test_with_a_confidence_only_what_is_significant_fails(*, demands, value, baseline, passed, within_noise):
    found = resampled_verdict(demands, value, baseline, 0.1)
    assert (found.passed, found.within_noise) == (passed, within_noise)
    assert found.confidence == demands.get("confidence")


def test_a_confidence_needs_an_interval_and_demands_nothing_alone():
    found = resampled_verdict({"min_change": 0.1}, 0.5, None, 0.1)
    assert found.passed and found.interval is None
    with pytest.raises(ConfigError, match="at least one of lower_bound"):
        parse_thresholds({MAP: {"confidence": 0.95}}, COCO_METRICS)
    assert not verdict({"lower_bound": 0.5, "confidence": 0.95}, 0.49).passed


def test_all_demands_are_judged_and_what_speaks_against_comes_alone():
    spec = {MAP: {"lower_bound": 0.1, "min_change": 0}, MAP_50: {"upper_bound": 1}}
    found = judge(parse_thresholds(spec, COCO_METRICS), {MAP: 0.2, MAP_50: 0.3}, {MAP: 0.4})
    lower, smaller, upper = ((v.kind, v.passed, v.baseline) for v in found)
    assert (lower, smaller) == (("lower_bound", True, 0.4), ("min_change", False, 0.4))
    assert upper == ("upper_bound", True, None)

    def verdicts(value):
        spec = {MAP: {"lower_bound": 0.5, "upper_bound": 0.9}}
        return judge(parse_thresholds(spec, COCO_METRICS), {MAP: value}, None)

    assert reasons_of(verdicts(0.4)) == (f"{MAP} is 0.4000, below 0.5",)
    assert len(reasons_of(verdicts(0.6))) == 2 and reasons_of(()) == ("no thresholds are set",)


@cases(
    ({"mAP@.50": {"lower_bound": 1}}, "did you mean 'DetectionBoxes_Precision/mAP@"),
    ({"DetectionBoxes_Precison/mAP": {"lower_bound": 1}}, "did you mean 'DetectionBoxes_Precision/mAP'?"),
    ({MAP: {"lower_bond": 1}}, "did you mean 'lower_bound'"),
    ({MAP: 0.5}, "expected at least one of lower_bound, upper_bound, min_change"),
    ({MAP: {}}, "expected at least one of"),
    ({MAP: {"lower_bound": "0.5"}}, "expected a number, found '0.5'"),
    ({MAP: {"lower_bound": True}}, "expected a number, found True"),
    ({MAP: {"lower_bound": 10**400}}, "expected a number, found 1000"),
    ({MAP: {"lower_bound": math.nan}}, "expected a number, found nan"),
    *(({MAP: {"min_change": 0, "confidence": one}}, LEVEL) for one in (95, 0, 1, "0.95", None, True)),
)
def test_mistakes_in_settings(*, spec, message):
    error = refused(ConfigError, r"^s\.yaml", parse_thresholds, spec, COCO_METRICS, where="s.yaml")
    assert message in str(error)


def split_of(images) -> EvaluatedSplit:
    return EvaluatedSplit(images=tuple(images), class_names=NAMES)


def without_ties(image, seed) -> EvaluatedImage:
    """Of equal scores in one image the engine takes the whole image after its copy, which means nothing."""
    found = image.detections
    scores = found.scores + np.random.default_rng(seed).uniform(0, 0.005, len(found.scores))
    found = dataclasses.replace(found, scores=scores.astype(np.float32)).take(np.argsort(-scores))
    return dataclasses.replace(image, detections=found)


@cases(*itertools.product(range(2), KINDS))
def test_a_resampled_metric_is_that_of_the_images_laid_out(monkeypatch, *, seed, kind):
    """The engine, given each image as often as it was drawn, gives the same numbers."""
    images = [without_ties(image, seed) for image in shaped_images(seed)[:12]]
    of_class, of_group = category_metric("dog", kind.map_name), group_metric("pets", kind.map_name)
    metrics = [*kind.summaries, of_class, of_group]
    draws = []
    draw = bootstrap._draw
    monkeypatch.setattr(bootstrap, "_draw", lambda *args: draws.append(draw(*args)) or draws[-1])
    found = resample(split_of(images), None, metrics, groups=GROUPS, resamples=5, seed=seed)
    for number, counts in enumerate(draws[0]):
        assert counts.sum() == 12
        drawn = [image for image, count in zip(images, counts, strict=True) for _ in range(int(count))]
        expected = evaluate_coco(drawn, NAMES, kind).metrics(per_category=True, groups=GROUPS)
        for metric in metrics:
            value = found[metric].values[number]
            assert (-1.0 if np.isnan(value) else value) == pytest.approx(expected[metric], abs=1e-6), metric


def test_what_is_measured_on_resampled_images_and_what_cannot_be_known(monkeypatch):
    images = random_images(0)
    found = resample(split_of(images), split_of(images), [MAP], groups={})[MAP]
    np.testing.assert_array_equal(found.values, found.baseline)
    interval = found.interval()
    assert interval.change == (0.0, 0.0) and interval.value[0] < interval.value[1]
    assert interval.level == 0.95 and interval.resamples == 1000
    found = resample(split_of(images), None, [MAP, "PascalBoxes_Precision/mAP@0.5IOU"], groups={})
    assert list(found) == [MAP] and resample(split_of(images[:1]), None, [MAP], groups={}) == {}
    nothing = split_of([evaluated([], [], [], [], [])] * 3)
    assert known_intervals(resample(nothing, None, [MAP], groups={})) == {}
    split = split_of(images)
    whole = resample(split, None, [MAP], groups={})[MAP].values
    monkeypatch.setattr(bootstrap, "_NUMBERS_AT_ONCE", 2000)
    np.testing.assert_allclose(resample(split, None, [MAP], groups={})[MAP].values, whole, rtol=1e-12)
    taken = []
    by_class = MatchTable.by_class
    taking = lambda table: lambda label: taken.append(label) or by_class(table)(label)  # noqa: E731
    monkeypatch.setattr(MatchTable, "by_class", taking)
    resample(split, None, [MAP, MAP_50], groups={})
    assert sorted(taken) == [0, 1, 2, 3, 4]
    for count, low in ((10, 26.6631), (30, 41.9785), (1_000_000, 50.0)):
        found = Resampled(values=np.arange(1001.0), baseline=None, images=count).interval(0.9)
        assert found.value == pytest.approx((low, 1000 - low), abs=0.2)


def detected(rng, truth, quality):
    """A detector's findings: each object found by chance, with clutter around."""
    seen = rng.random(len(truth.classes)) < quality
    noise = rng.normal(0, 0.012, (int(seen.sum()), 4)).astype(np.float32)
    clutter = rng.uniform(0, 0.5, (2, 2))
    boxes = np.concatenate([truth.boxes[seen] + noise, np.concatenate([clutter, clutter + 0.2], 1)])
    scores = np.concatenate([rng.uniform(0.3, 1, int(seen.sum())), rng.uniform(0, 0.6, 2)])
    return make_detections(boxes, scores, np.concatenate([truth.classes[seen], rng.integers(0, 2, 2)]))


def two_detectors(seed, images, quality=(0.7, 0.7)):
    """Findings of two detectors on the same images."""
    rng = np.random.default_rng(seed)
    splits: tuple[list, list] = ([], [])
    for _ in range(images):
        count = int(rng.integers(1, 5))
        low = rng.uniform(0, 0.6, (count, 2))
        truth = make_truth(np.concatenate([low, low + 0.3], 1), rng.integers(0, 2, count))
        for split, q in zip(splits, quality, strict=True):
            split.append(EvaluatedImage(truth=truth, detections=detected(rng, truth, q)))
    return [split_of(split) for split in splits]


def test_equally_good_detectors_are_told_apart_as_seldom_as_the_level_says():
    """5 % is what the level promises; of 120 trials more than 13 come about once in 200 times then."""
    alarms = 0
    for seed in range(120):
        one, other = two_detectors(seed, images=30)
        found = resample(one, other, [MAP_50], groups={}, resamples=200, seed=seed)
        low, high = found[MAP_50].interval().change
        alarms += not low <= 0 <= high
    assert alarms <= 13
    one, other = two_detectors(0, 100, quality=(0.5, 0.8))
    assert resample(one, other, [MAP_50], groups={})[MAP_50].interval().change[1] < 0


def test_confusion_is_that_by_hand_and_curves_agree_with_it_and_with_average_precision():
    objects = [LEFT, RIGHT, [0.5, 0, 1, 0.4]], [0, 2, 2]
    # A 0 taken for a 2, a 2 found, a false 0, and one below the threshold.
    found = [LEFT, RIGHT, [0, 0.6, 0.3, 0.9], LEFT], [0.9, 0.8, 0.7, 0.1], [2, 2, 0, 0]
    split = EvaluatedSplit(images=(evaluated(*objects, *found),), class_names={0: "cat", 2: "bird"})
    assert confusion_matrix(split, 0.5).tolist() == [[0, 1, 0], [0, 1, 1], [1, 0, 0]]
    split = EvaluatedSplit(images=tuple(random_images(1)), class_names=NAMES)
    curves = make_curves(split, 0.4)
    metrics = split.coco.metrics(per_category=True)
    for entry in curves.classes[:4]:
        assert np.mean(entry.precision) == pytest.approx(entry.ap50, abs=1e-5)
        assert entry.ap == pytest.approx(metrics[f"DetectionBoxes_PerformanceByCategory/mAP/{entry.name}"])
    assert np.mean([c.ap50 for c in curves.classes[:4]]) == pytest.approx(curves.map50)
    newt = curves.classes[4]
    assert (newt.ap, newt.ap50, newt.objects, newt.precision) == (None, None, 0, [])
    assert newt.false_positives > 0
    text = CURVES.format(curves)
    assert CURVES.parse(text, "curves.json") == curves and "NaN" not in text
    assert json.loads(text)["classes"][0]["name"] == "cat"
    matrix = np.array(curves.confusion.matrix)
    assert curves.confusion.labels == [*NAMES.values(), "background"]
    for k, entry in enumerate(curves.classes):
        truly = sum(int(((i.truth.classes == k) & ~i.truth.is_crowd).sum()) for i in split.images)
        assert entry.objects == truly == matrix[k].sum() and entry.found + entry.misses == entry.objects
        assert entry.found + entry.false_positives == matrix[:, k].sum()


def test_what_is_derived_is_computed_once_and_hides_no_detection_where_nothing_is_found():
    images = tuple(random_images(2))
    split = EvaluatedSplit(images=images, class_names=PETS)
    assert split.coco.metrics() == evaluate_coco(images, PETS).metrics()
    matches = [match_image(image) for image in images]
    for ours, expected in zip(split.matches, matches, strict=True):
        np.testing.assert_array_equal(ours.found_by, expected.found_by)
    assert split.best_score == best_score_threshold(images, matches)
    assert 0 <= split.best_score - split.score_threshold < 1e-4
    assert split.coco is split.coco and split.matches is split.matches
    found = [dataclasses.replace(i.detections, classes=i.detections.classes + 9) for i in images]
    pairs = zip(images, found, strict=True)
    elsewhere = tuple(dataclasses.replace(image, detections=each) for image, each in pairs)
    for found in (elsewhere, ()):
        split = EvaluatedSplit(images=found, class_names=PETS)
        assert split.best_score == 0.5 and split.score_threshold == 0.0
