"""Thresholds that are learned from the evaluated split: false alarms, real changes, samples and scores."""

from unittest import mock

import numpy as np
import pytest

from detection_core.evaluation.results import EvaluatedImage
from detection_core.structures import Instances
from detection_core.validation import detection_drift
from detection_core.validation.detection_drift import (
    Served,
    compare_detections,
    describe_detections,
    describe_evaluation,
    from_score,
)

NAMES = ["ant", "bee", "cat", "dog"]


def served(count, rng, *, ants=0.2, dark=1.0, smaller=1.0, size=(480, 640)):
    """Images whose numbers of objects vary more than those of independent objects."""
    made = []
    for number in range(count):
        objects = rng.poisson(6 * rng.gamma(2, 0.5))
        classes = np.where(rng.random(objects) < ants, 0, rng.integers(1, 4, objects))
        corners, sides = rng.random((objects, 2)) * 0.7, rng.random((objects, 2)) * 0.3 * smaller
        found = Instances(
            source_id=str(number),
            height=size[0],
            width=size[1],
            boxes=np.concatenate([corners, corners + sides], axis=1),
            classes=classes,
            scores=rng.random(objects).astype(np.float32),
        )
        made.append(Served(found, float(np.clip(rng.normal(120, 30), 0, 255) * dark)))
    return made


def compare(count, rng, evaluated, **changed):
    return compare_detections(
        describe_detections(served(count, rng, **changed), NAMES, min_score=0.3), evaluated, draws=300
    )


def described(rng, count=150):
    return describe_detections(served(count, rng), NAMES, min_score=0.3)


def test_at_most_the_allowed_share_of_comparisons_without_drift_report_it():
    alarms = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        found = compare((40, 100, 400)[seed % 3], rng, described(rng))
        alarms += found[0].drifted
    assert alarms <= 3  # expected 0.6; more than 3 of 60 has a probability of 0.003


def test_a_change_is_found_and_named():
    rng = np.random.default_rng(1)
    evaluated = described(rng)
    for changed, name, most in (
        ({"ants": 0.5}, "class", "ant"),
        ({"dark": 0.6}, "brightness", "64 to 96"),
        ({"smaller": 0.4}, "size", None),
        ({"size": (240, 320)}, "image size", "256 to 512"),
    ):
        first, *others = compare(100, rng, evaluated, **changed)
        assert first.drifted and first.name == name and most in (None, first.most_changed), changed
        assert not any(other.drifted for other in others if other.name not in ("aspect", "place"))
        assert sum(first.counts[0]) > 0 and first.text.startswith(f"{name} (above all ")


def test_a_large_window_is_not_judged_more_strictly_than_one_of_the_size_of_the_split():
    rng = np.random.default_rng(2)
    evaluated = described(rng, count=50)
    few, many = ({c.name: c for c in compare(n, rng, evaluated)} for n in (50, 1000))
    for name, found in few.items():
        assert many[name].threshold == pytest.approx(found.threshold, rel=0.05)


def test_of_a_property_without_noise_few_images_may_differ():
    rng = np.random.default_rng(5)
    evaluated, images = described(rng, count=100), served(100, rng)
    large = served(100, rng, size=(2000, 3000))
    for others, drifted in ((3, False), (12, True)):
        given = describe_detections([*large[:others], *images[others:]], NAMES, min_score=0.3)
        found = {each.name: each for each in compare_detections(given, evaluated, draws=100)}
        assert found["image size"].divergence > 0 and found["image size"].drifted == drifted


def test_unknown_sizes_and_brightness_are_not_compared():
    rng = np.random.default_rng(3)
    unknown = [
        Served(
            Instances(
                source_id=image.found.source_id,
                boxes=image.found.boxes,
                classes=image.found.classes,
                scores=image.found.scores,
            )
        )
        for image in served(60, rng)
    ]
    found = compare_detections(describe_detections(unknown, NAMES, min_score=0.3), described(rng), draws=50)
    assert {each.name for each in found} == {"class", "score", "size", "place", "objects of an image"}
    nothing = describe_detections(
        [image._replace(found=image.found.take([])) for image in unknown], NAMES, min_score=0.3
    )
    first, *others = compare_detections(nothing, described(rng), draws=50)
    assert (
        first.name == "objects of an image"
        and first.drifted
        and first.most_changed == "below 1"
        and not others
    )


def test_statistics_of_a_higher_score_are_those_of_fewer_detections(monkeypatch):
    images = served(80, np.random.default_rng(4))
    low, high = (describe_detections(images, NAMES, min_score=score) for score in (0.3, 0.6))
    assert from_score(low, 0.6) == high and from_score(high, 0.6) == high
    assert sum(high.detections) < sum(low.detections)
    # Of a large split, an even sample is kept; of served images, all.
    monkeypatch.setattr(detection_drift, "MOST_IMAGES", 30)
    split = mock.Mock(
        images=[EvaluatedImage(truth=i.found, detections=i.found, brightness=i.brightness) for i in images],
        score_threshold=0.35,
    )
    sample = describe_evaluation(split, NAMES, "eval")
    assert (sample.split, sample.images, sample.min_score) == ("eval", 80, 0.3)
    assert sample.detections == low.detections[::3]
    assert len(describe_detections(images, NAMES, min_score=0.3).detections) == 80
