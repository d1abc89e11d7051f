import numpy as np

from detection_core.ops.similarities import ThresholdedIou, negative_squared_distance
from tests.support.cases import cases
from tests.support.golden_cases import load_cases

CASES = load_cases(__file__, "region_similarity")


@cases(("0p5", 0.5), ("0p1", 0.1), ("default", 0.5))
def test_golden_thresholded_iou_with_scores(*, name, threshold):
    case = CASES[f"thresholded_iou_{name}"]
    found = ThresholdedIou(iou_threshold=threshold).with_scores(
        case.inputs["boxes1"], case.inputs["boxes2"], case.inputs["scores_of_boxes1"]
    )
    np.testing.assert_allclose(found, case.outputs["similarity"], rtol=1e-5, atol=1e-6)


def test_ground_truth_has_score_one_and_the_nearest_box_is_most_alike():
    boxes = np.float32([[0, 0, 1, 1], [0, 0, 1, 0.6], [0, 0, 0.1, 0.1]])
    np.testing.assert_array_equal(ThresholdedIou(iou_threshold=0.5)(boxes, boxes[:1]), [[1], [1], [0]])
    found = negative_squared_distance(boxes[:1], np.float32([[0, 0, 1, 1], [0, 0, 1, 3]]))
    np.testing.assert_allclose(found, [[0, -4]], atol=1e-6)
