import json

import numpy as np
import pytest

from detection_core.artifacts.coco_names import COCO_METRICS
from detection_core.evaluation.coco_metrics import evaluate_coco
from tests.support.cases import cases
from tests.support.coco_goldens import DATA, NAMES, coco_engine, golden_images
from tests.support.evaluated_images import evaluated, random_images

# pycocotools adds 2.2e-16 to the denominator of a precision; nothing else may differ.
LAST_BIT = {"rtol": 0, "atol": 5e-16}


@cases(*range(6))
def test_equal_to_pycocotools(*, seed):
    images = random_images(seed)
    result = evaluate_coco(images, NAMES)
    reference = coco_engine(images, NAMES)
    assert list(result.metrics()) == list(COCO_METRICS)
    np.testing.assert_allclose(list(result.metrics().values()), reference.stats, **LAST_BIT)
    np.testing.assert_allclose(result.precision, reference.eval["precision"], **LAST_BIT)
    np.testing.assert_array_equal(result.recall, reference.eval["recall"])
    np.testing.assert_array_equal(result.scores, reference.eval["scores"])


def test_no_detections_no_objects_and_more_than_a_hundred_of_a_class():
    with_object = [evaluated([[0, 0, 0.5, 0.5]], [0], [], [], [])]
    metrics = evaluate_coco(with_object, NAMES).metrics()
    np.testing.assert_array_equal(list(metrics.values()), coco_engine(with_object, NAMES).stats)
    assert metrics["DetectionBoxes_Precision/mAP"] == 0.0
    assert set(evaluate_coco([evaluated([], [], [], [], [])], NAMES).metrics().values()) == {-1.0}
    images = random_images(11, count=3, classes=3, max_objects=40, clutter=900)
    found = list(evaluate_coco(images, NAMES).metrics().values())
    np.testing.assert_allclose(found, coco_engine(images, NAMES).stats, **LAST_BIT)


def test_hand_worked():
    """Two objects, one found exactly, one missed; a better-scored false alarm halves the precision."""
    objects, found = [[0, 0, 0.5, 0.5], [0.5, 0.5, 1, 1]], [[0, 0, 0.5, 0.5], [0, 0.5, 0.4, 0.9]]
    result = evaluate_coco([evaluated(objects, [0, 0], found, [0.8, 0.9], [0, 0])], NAMES)
    # Recall 0 .. 0.50 is reached with precision 1/2: 51 of 101 points.
    assert result.metrics()["DetectionBoxes_Precision/mAP@.50IOU"] == pytest.approx(0.5 * 51 / 101)
    assert result.metrics()["DetectionBoxes_Recall/AR@100"] == 0.5
    assert result.metrics()["DetectionBoxes_Recall/AR@1"] == 0.0


def test_areas_and_classes_are_measured_apart():
    box = [[0, 0, 0.2, 0.1]]  # 20 x 20 px
    for fields, values in (({}, (1.0, -1.0)), ({"area": [99999.0]}, (-1.0, 1.0))):
        metrics = evaluate_coco([evaluated(box, [0], box, [0.9], [0], **fields)], NAMES).metrics()
        found = [metrics[f"DetectionBoxes_Precision/mAP ({size})"] for size in ("small", "large")]
        assert found == pytest.approx(values)
    images = random_images(2)
    result = evaluate_coco(images, NAMES)
    metrics = result.metrics(per_category=True)
    own = [metrics[f"DetectionBoxes_PerformanceByCategory/mAP/{name}"] for name in NAMES.values()]
    assert own[4] == -1.0  # no object of this class
    assert np.mean(own[:4]) == pytest.approx(metrics["DetectionBoxes_Precision/mAP"])
    alone = evaluate_coco(images, {1: "dog"}).metrics()
    everything = result.metrics(all_per_category=True)
    for kind, metric in (("Recall", "AR@10"), ("Precision", "mAP (small)")):
        own = everything[f"DetectionBoxes_{kind} {metric} ByCategory/dog"]
        assert own == alone[f"DetectionBoxes_{kind}/{metric}"]


@cases(("coco_boxes", True, False), ("coco_boxes_no_crowd", False, False), ("coco_boxes_area", True, True))
def test_numbers_of_the_object_detection_api(*, case, crowd, area):
    expected = json.loads((DATA / "evaluation_metrics.json").read_text())[case]
    names = {0: "cat", 1: "dog", 2: "bird", 3: "fish"}
    metrics = evaluate_coco(golden_images(crowd, area), names).metrics()
    assert metrics.keys() == expected.keys()
    for name, value in expected.items():
        assert metrics[name] == pytest.approx(value, abs=1e-6), name
