import dataclasses
from pathlib import Path

import numpy as np

from detection_core.evaluation.results import EvaluatedImage, box_areas, iou_px, only_labelled, to_px
from tests.support.evaluated_images import make_detections, make_truth


def test_overlaps_are_those_by_hand_and_only_labelled_classes_count():
    truth = make_truth([[0.1, 0.2, 0.5, 0.6]], [0], height=100, width=200)
    boxes = to_px(truth.boxes, truth)
    np.testing.assert_allclose(boxes, [[10, 40, 50, 120]], rtol=1e-6)
    np.testing.assert_allclose(box_areas(boxes), [3200], rtol=1e-6)
    assert to_px(np.zeros(0), truth).shape == (0, 4)
    found = np.array([[0, 0, 10, 10], [20, 20, 20, 20]])
    true = np.array([[0, 5, 10, 15], [0, 0, 100, 100]])
    plain = iou_px(found, true, np.array([False, False]))
    np.testing.assert_allclose(plain, [[50 / 150, 100 / 10000], [0, 0]])
    crowd = iou_px(found, true, np.array([True, True]))
    np.testing.assert_allclose(crowd, [[0.5, 1.0], [0, 0]])
    assert iou_px(np.zeros((0, 4)), true, np.array([False, False])).shape == (0, 2)
    arrays = np.load(Path(__file__).parent / "data" / "evaluation_fixture.npz")
    first, second = arrays["np_box_ops/boxes1"], arrays["np_box_ops/boxes2"]
    no_crowd = np.zeros(len(second), bool)
    np.testing.assert_allclose(iou_px(first, second, no_crowd), arrays["np_box_ops/iou"], atol=1e-6)
    # Its "ioa" divides by the area of the second box; ours, for crowds, by the detection's.
    shares = iou_px(second, first, np.ones(len(first), bool)).T
    np.testing.assert_allclose(shares, arrays["np_box_ops/ioa"], atol=1e-6)
    truth = make_truth([[0, 0, 1, 1]], [0])
    found = make_detections([[0, 0, 1, 1]] * 3, [0.9, 0.8, 0.7], [0, 1, 2])
    image = EvaluatedImage(truth=truth, detections=found)
    assert only_labelled(image) is image
    labelled = dataclasses.replace(truth, labelled=np.array([2], np.int32))
    labelled_image = only_labelled(EvaluatedImage(truth=labelled, detections=found))
    assert labelled_image.detections.classes.tolist() == [0, 2]
