import json

import numpy as np
import pytest

from detection_core.artifacts.evaluation import CURVES
from detection_core.evaluation.curves import make_curves
from detection_core.evaluation.evaluated_split import EvaluatedSplit
from tests.support.coco_goldens import NAMES
from tests.support.evaluated_images import random_images


@pytest.fixture(scope="module")
def made():
    split = EvaluatedSplit(images=tuple(random_images(1)), class_names=NAMES)
    return split.images, split.coco, make_curves(split, 0.4)


def test_curves_agree_with_average_precision_and_with_the_confusion_matrix(made):
    _, coco, curves = made
    metrics = coco.metrics(per_category=True)
    for entry in curves.classes[:4]:
        assert np.mean(entry.precision) == pytest.approx(entry.ap50, abs=1e-5)
        own = metrics[f"DetectionBoxes_PerformanceByCategory/mAP/{entry.name}"]
        assert entry.ap == pytest.approx(own)
    known = [c.ap50 for c in curves.classes[:4]]
    assert np.mean(known) == pytest.approx(curves.map50)
    newt = made[2].classes[4]
    assert (newt.ap, newt.ap50, newt.objects, newt.precision) == (None, None, 0, [])
    assert newt.false_positives > 0
    text = CURVES.format(made[2])
    assert CURVES.parse(text, "curves.json") == made[2] and "NaN" not in text
    assert json.loads(text)["classes"][0]["name"] == "cat"
    images, _, curves = made
    matrix = np.array(curves.confusion.matrix)
    assert curves.confusion.labels == [*NAMES.values(), "background"]
    for k, entry in enumerate(curves.classes):
        truly = sum(int(((i.truth.classes == k) & ~i.truth.is_crowd).sum()) for i in images)
        assert entry.objects == truly == matrix[k].sum()
        assert entry.found + entry.misses == entry.objects
        assert entry.found + entry.false_positives == matrix[:, k].sum()
