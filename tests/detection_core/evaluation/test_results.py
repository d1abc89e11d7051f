from __future__ import annotations

import numpy as np

from detection_core.evaluation.results import box_areas, iou_px, to_px
from tests.detection_core.evaluation.images import make_truth


def test_pixels_and_areas():
    truth = make_truth([[0.1, 0.2, 0.5, 0.6]], [0], height=100, width=200)
    boxes = to_px(truth.boxes, truth)
    np.testing.assert_allclose(boxes, [[10, 40, 50, 120]], rtol=1e-6)
    np.testing.assert_allclose(box_areas(boxes), [3200], rtol=1e-6)
    assert to_px(np.zeros(0), truth).shape == (0, 4)


def test_overlaps_by_hand():
    found = np.array([[0, 0, 10, 10], [20, 20, 20, 20]])
    true = np.array([[0, 5, 10, 15], [0, 0, 100, 100]])
    plain = iou_px(found, true, np.array([False, False]))
    np.testing.assert_allclose(plain, [[50 / 150, 100 / 10000], [0, 0]])
    crowd = iou_px(found, true, np.array([True, True]))
    np.testing.assert_allclose(crowd, [[0.5, 1.0], [0, 0]])
    assert iou_px(np.zeros((0, 4)), true, np.array([False, False])).shape == (0, 2)
