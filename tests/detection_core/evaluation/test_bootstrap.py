import dataclasses

import numpy as np
import pytest

from detection_core.artifacts.coco_names import COCO_METRICS, MAP, MAP_50, category_metric, group_metric
from detection_core.evaluation import bootstrap
from detection_core.evaluation.bootstrap import BootstrapOptions, Resampled, known_intervals, resample
from detection_core.evaluation.coco_metrics import evaluate_coco
from detection_core.evaluation.evaluated_split import EvaluatedSplit
from detection_core.evaluation.results import EvaluatedImage
from tests.support.cases import cases
from tests.support.coco_goldens import NAMES
from tests.support.evaluated_images import evaluated, make_detections, make_truth, random_images

GROUPS = {"pets": ("cat", "dog")}
METRICS = [*COCO_METRICS, category_metric("dog"), group_metric("pets")]


def split_of(images) -> EvaluatedSplit:
    return EvaluatedSplit(images=tuple(images), class_names=NAMES)


def without_ties(image, seed) -> EvaluatedImage:
    """Of equal scores in one image the engine takes the whole image after its copy, which means nothing."""
    found = image.detections
    scores = found.scores + np.random.default_rng(seed).uniform(0, 0.005, len(found.scores))
    return dataclasses.replace(image, detections=make_detections(found.boxes, scores, found.classes))


@cases(*range(3))
def test_a_resampled_metric_is_that_of_the_images_laid_out(monkeypatch, *, seed):
    """The engine, given each image as often as it was drawn, gives the same numbers."""
    images = [without_ties(image, seed) for image in random_images(seed, count=12)]
    draws = []
    draw = bootstrap._draw
    monkeypatch.setattr(bootstrap, "_draw", lambda *args: draws.append(draw(*args)) or draws[-1])
    options = BootstrapOptions(resamples=5, seed=seed)
    found = resample(split_of(images), None, METRICS, groups=GROUPS, options=options)
    for number, counts in enumerate(draws[0]):
        assert counts.sum() == 12
        drawn = [image for image, count in zip(images, counts, strict=True) for _ in range(int(count))]
        expected = evaluate_coco(drawn, NAMES).metrics(per_category=True, groups=GROUPS)
        for metric in METRICS:
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
    assert list(found) == [MAP]
    assert resample(split_of(images[:1]), None, [MAP], groups={}) == {}
    assert (
        known_intervals(resample(split_of([evaluated([], [], [], [], [])] * 3), None, [MAP], groups={})) == {}
    )
    split = split_of(images)
    whole = resample(split, None, [MAP], groups={})[MAP].values
    monkeypatch.setattr(bootstrap, "_NUMBERS_AT_ONCE", 2000)
    np.testing.assert_allclose(resample(split, None, [MAP], groups={})[MAP].values, whole, rtol=1e-12)
    matched = []
    match = bootstrap.match_class
    monkeypatch.setattr(bootstrap, "match_class", lambda *args: matched.append(args[1]) or match(*args))
    resample(split, None, [MAP, MAP_50], groups={})
    assert sorted(matched) == [0, 1, 2, 3, 4]
    for count, low in (
        (10, 26.6631),
        (30, 41.9785),
        (1_000_000, 50.0),
    ):
        found = Resampled(values=np.arange(1001.0), baseline=None, images=count).interval(0.9)
        assert found.value == pytest.approx((low, 1000 - low), abs=0.2)


def detected(rng, truth, quality):
    """A detector's findings: each object found by chance, with clutter around."""
    seen = rng.random(len(truth.classes)) < quality
    noise = rng.normal(0, 0.012, (int(seen.sum()), 4)).astype(np.float32)
    clutter = rng.uniform(0, 0.5, (2, 2))
    boxes = np.concatenate([truth.boxes[seen] + noise, np.concatenate([clutter, clutter + 0.2], 1)])
    scores = np.concatenate([rng.uniform(0.3, 1, int(seen.sum())), rng.uniform(0, 0.6, 2)])
    classes = np.concatenate([truth.classes[seen], rng.integers(0, 2, 2)])
    return make_detections(boxes, scores, classes)


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
        options = BootstrapOptions(resamples=200, seed=seed)
        low, high = resample(one, other, [MAP_50], groups={}, options=options)[MAP_50].interval().change
        alarms += not low <= 0 <= high
    assert alarms <= 13
    one, other = two_detectors(0, 100, quality=(0.5, 0.8))
    assert resample(one, other, [MAP_50], groups={})[MAP_50].interval().change[1] < 0
