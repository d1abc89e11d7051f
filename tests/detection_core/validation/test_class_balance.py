from __future__ import annotations

from detection_core.artifacts.data_statistics import Histogram, SampleStatistics
from detection_core.validation.checks import FindingList, make_limits
from detection_core.validation.class_balance import check_classes


def _sample(images=100, empty=0, **classes):
    counts = list(classes.values())
    histogram = Histogram(bins=list(classes), counts=counts, squares=counts, products=counts, images=counts)
    return SampleStatistics(
        images=images, empty_images=empty, objects=sum(counts), histograms={"class": histogram}
    )


def _found(splits, classes=("cat", "dog"), **given):
    findings = FindingList(make_limits(given))
    check_classes(splits, classes, findings)
    return {finding.id: finding for finding in findings.findings()}


def test_balanced_classes_are_no_finding():
    splits = {"train": _sample(cat=50, dog=10), "eval": _sample(cat=5, dog=5)}
    assert _found(splits) == {}


def test_a_class_that_vanished_from_training_is_found_in_all_that_it_means():
    found = _found({"train": _sample(cat=50, dog=0), "eval": _sample(cat=5, dog=5)})
    assert set(found) == {"class_without_objects:train", "class_not_trained:eval"}
    assert found["class_without_objects:train"].count == 1
    assert "none in train: dog" in found["class_not_trained:eval"].message


def test_a_class_that_is_not_measured_and_a_rare_one():
    found = _found({"train": _sample(cat=50, dog=9), "eval": _sample(cat=5, dog=0)})
    assert set(found) == {"rare_class:train", "class_not_measured:eval"}
    assert "dog (9)" in found["rare_class:train"].message and found["rare_class:train"].measured == 9
    assert "rare_class:train" not in _found({"train": _sample(cat=50, dog=9)}, rare_class={"threshold": 9})


def test_mostly_empty_images_are_found():
    found = _found({"train": _sample(empty=51, cat=50, dog=20)})
    assert found["empty_images:train"].measured == 0.51
    assert _found({"train": _sample(empty=50, cat=50, dog=20)}) == {}


def test_many_classes_are_counted_and_some_named():
    names = [f"class {i}" for i in range(40)]
    found = _found({"train": _sample(**dict.fromkeys(names, 0))}, names)
    assert "class 9 and 30 more" in found["class_without_objects:train"].message
