from detection_core.artifacts.data_statistics import Histogram, SampleStatistics
from detection_core.validation.class_balance import check_classes
from tests.detection_core.validation.samples import found_by


def _sample(images=100, empty=0, **classes):
    counts = list(classes.values())
    histogram = Histogram(bins=list(classes), counts=counts, squares=counts, products=counts, images=counts)
    shown = {"images": images, "empty_images": empty, "objects": sum(counts)}
    return SampleStatistics(**shown, histograms={"class": histogram})


def _found(splits, classes=("cat", "dog"), **given):
    return found_by(check_classes, splits, classes, **given)


def test_empty_images_and_classes_that_vanished_or_are_rare_are_found():
    splits = {"train": _sample(cat=50, dog=10), "eval": _sample(cat=5, dog=5)}
    assert _found(splits) == {}
    found = _found({"train": _sample(empty=51, cat=50, dog=20)})
    assert found["empty_images:train"].measured == 0.51
    assert _found({"train": _sample(empty=50, cat=50, dog=20)}) == {}
    names = [f"class {i}" for i in range(40)]
    found = _found({"train": _sample(**dict.fromkeys(names, 0))}, names)
    assert "class 9 and 30 more" in found["class_without_objects:train"].message
    found = _found({"train": _sample(cat=50, dog=0), "eval": _sample(cat=5, dog=5)})
    assert set(found) == {"class_without_objects:train", "class_not_trained:eval"}
    assert found["class_without_objects:train"].count == 1
    assert "none in train: dog" in found["class_not_trained:eval"].message
    found = _found({"train": _sample(cat=50, dog=9), "eval": _sample(cat=5, dog=0)})
    assert set(found) == {"rare_class:train", "class_not_measured:eval"}
    assert "dog (9)" in found["rare_class:train"].message and found["rare_class:train"].measured == 9
    assert "rare_class:train" not in _found({"train": _sample(cat=50, dog=9)}, rare_class={"threshold": 9})
