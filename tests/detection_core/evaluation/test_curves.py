import json

import numpy as np
import pytest

from detection_core.artifacts.evaluation import CURVES
from detection_core.evaluation.curves import make_curves
from detection_core.evaluation.evaluated_split import EvaluatedSplit
from tests.support.coco_goldens import NAMES
from tests.support.evaluated_images import random_images


def test_curves_agree_with_average_precision_and_with_the_confusion_matrix():
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
        assert entry.objects == truly == matrix[k].sum()
        assert entry.found + entry.misses == entry.objects
        assert entry.found + entry.false_positives == matrix[:, k].sum()
