import math

import pytest
from scipy import stats

from benchmarks.drift_false_alarms import draw_images, false_alarms
from detection_core.validation import drift
from detection_core.validation.drift import LEAST_IMAGES, check_drift, check_vanished, find_drift
from tests.detection_core.validation.samples import findings_of
from tests.support.cases import cases

NAMES = ("span 2", "span 1")
RATES = {"cat": 0.5, "dog": 0.3, "fox": 0.2}


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
    assert find_drift(after, before, divergence=0.0)
    assert _found("span_drift", after, before)[0] == {}
    assert _found("span_drift", after, before, span_drift={"threshold": 0.0})[0]
    few = draw_images(LEAST_IMAGES - 1, {"fox": 1.0}, seed=1)
    found, outcomes = _found("span_drift", few, draw_images(500, {"cat": 1.0}, seed=2))
    assert found == {} and "30 are needed" in outcomes["span_drift"]


@cases((40, True), (40, False), (400, True))
def test_false_alarms_are_as_rare_as_promised(*, images, clustered):
    """One in a hundred at most; of 300 comparisons 9 or more would then be a chance of one in 500."""
    alarms = false_alarms(images, 300, clustered=clustered, divergence=0.0)
    assert alarms <= stats.binom.ppf(0.998, 300, 0.01)


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
