import numpy as np
import pytest

from detection_core.data.label_map import LabelMap, LabelMapItem, label_map_from_names
from detection_core.errors import DataError, ModelError
from detection_core.evaluation.measure import measure
from tests.support.blobs import scenes
from tests.support.cases import refused
from tests.support.evaluated_images import make_detections


class Fixed:
    """Finds the same in every image."""

    path = "fixed"

    def __init__(self, classes):
        self.classes = classes

    def __call__(self, image, source_id=""):
        count = len(self.classes)
        return make_detections(np.tile([0.0, 0, 1, 1], (count, 1)), [0.5] * count, self.classes, source_id)


LABELS = label_map_from_names(["red", "green"])


def test_several_detectors_are_measured_in_one_pass_in_classes_of_the_label_map():
    images = scenes(5)
    passes = []

    def once():
        passes.append(1)
        yield from images

    measured = measure({"a": Fixed([0]), "b": Fixed([1, 0])}, once(), LABELS)
    assert len(passes) == 1
    names = [truth.source_id for _, truth in images]
    assert [i.truth.source_id for i in measured["a"].images] == names
    assert [i.detections.source_id for i in measured["b"].images] == names
    assert all(len(i.detections.classes) == 2 for i in measured["b"].images)
    assert measured["a"].seconds_per_image > 0
    refused(ModelError, "ids 1 to 2, found id 3", measure, {"a": Fixed([2])}, scenes(1), LABELS)
    with pytest.raises(DataError, match=r"scene 1: .*found an object with id 2"):
        measure({"a": Fixed([])}, scenes(2), label_map_from_names(["red"]))
    refused(DataError, "found none", measure, {"a": Fixed([])}, [], LABELS)
    gap = LabelMap(items=(LabelMapItem(id=1, name="red"), LabelMapItem(id=3, name="green")))
    measured = measure({"a": Fixed([0, 1, 2])}, scenes(1), gap)
    assert measured["a"].images[0].detections.classes.tolist() == [0, 2]
