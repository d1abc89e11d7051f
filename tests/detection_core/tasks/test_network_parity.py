"""Verdicts on raw heads and boxes."""

from __future__ import annotations

import numpy as np
import pytest

from detection_core.artifacts.parity import NetworkParity
from detection_core.evaluation.results import EvaluatedImage
from detection_core.exporters.tflite_formats import Tolerance
from detection_core.structures import ImageDetections
from detection_core.tasks.network_parity import box_clauses, compare_boxes, network_clauses
from tests.detection_core.evaluation.images import make_truth

TOLERANCE = Tolerance(heads_db=20.0, matched_boxes=0.9)


def image(*found: tuple[float, float, int]) -> EvaluatedImage:
    """One row of boxes of a tenth of the image, each (left side, score, class)."""
    boxes = [[0.0, left, 0.1, left + 0.1] for left, _, _ in found]
    detections = ImageDetections(
        source_id="x",
        boxes=np.array(boxes, np.float32).reshape(-1, 4),
        scores=np.array([score for _, score, _ in found], np.float32),
        classes=np.array([label for _, _, label in found], np.int32),
    )
    return EvaluatedImage(truth=make_truth([], [], height=10, width=10, source_id="x"), detections=detections)


def test_boxes_are_found_by_class_and_overlap_each_once():
    reference = [image((0.0, 0.9, 0), (0.3, 0.8, 1), (0.6, 0.7, 0), (0.8, 0.2, 0))]
    found = [image((0.01, 0.7, 0), (0.3, 0.8, 0), (0.62, 0.7, 0), (0.0, 0.6, 1))]
    parity = compare_boxes(reference, found, TOLERANCE)
    # The second has another class there; the fourth does not count.
    assert parity.detections == 3 and parity.matched == pytest.approx(2 / 3, abs=1e-6)
    assert parity.mean_iou == pytest.approx((0.09 / 0.11 + 0.08 / 0.12) / 2, abs=1e-4)
    assert parity.mean_score_difference == pytest.approx(0.1, abs=1e-6)
    twice = compare_boxes([image((0.0, 0.9, 0), (0.01, 0.8, 0))], [image((0.0, 0.9, 0))], TOLERANCE)
    assert twice.matched == 0.5


def test_nothing_to_find_is_all_found():
    parity = compare_boxes([image((0.0, 0.1, 0))], [image()], TOLERANCE)
    assert (parity.detections, parity.matched, parity.mean_iou) == (0, 1.0, None)
    assert list(box_clauses(parity)) == []


@pytest.mark.parametrize(("images", "refused"), [(20, True), (19, False)])
def test_a_share_of_few_detections_refuses_nothing(images, refused):
    parity = compare_boxes([image((0.0, 0.9, 0))] * images, [image()] * images, TOLERANCE)
    clauses = list(box_clauses(parity))
    assert bool(clauses) is refused
    if refused:
        assert clauses[0].startswith("0.0% of the SavedModel's 20 detections from a score of 0.3")


def test_heads_beyond_the_bound_name_the_layer():
    apart = NetworkParity(
        images=4,
        least_db=20.0,
        heads={"box_codes": 31.0, "class_logits": -2.2},
        layer="class_head",
        operation="CONV_2D",
        layer_db=1.8,
    )
    (clause,) = network_clauses(apart)
    assert "class_logits -2.2 dB" in clause and "box_codes" not in clause
    assert "part first at class_head (CONV_2D, 1.8 dB)" in clause
    near = NetworkParity(images=4, least_db=20.0, heads={"box_codes": 31.0}, layer="tower", layer_db=19.0)
    assert list(network_clauses(near)) == [] and list(network_clauses(None)) == []
