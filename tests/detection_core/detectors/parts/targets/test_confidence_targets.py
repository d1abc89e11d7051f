import numpy as np
import tensorflow as tf

from detection_core.detectors.parts.box_coders.faster_rcnn import FasterRcnnBoxCoder
from detection_core.detectors.parts.matchers.argmax import ArgMaxMatcher, ArgMaxMatcherOptions
from detection_core.detectors.parts.targets.confidence_targets import ConfidenceTargetAssigner
from detection_core.ops import iou as iou_ops
from detection_core.ops.objects import new_truth
from tests.support.cases import cases
from tests.support.golden_cases import load_cases

CASES = load_cases(__file__, "target_assigner")
ANCHORS = tf.constant([[0.0, 0.0, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0]])
TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}


def _assigner(background: bool, weight: float = 0.1):
    matcher = ArgMaxMatcherOptions(
        matched_threshold=0.5,
        unmatched_threshold=0.4,
        negatives_lower_than_unmatched=True,
        force_match_for_each_row=True,
    )
    return ConfidenceTargetAssigner(
        similarity=iou_ops.iou,
        matcher=ArgMaxMatcher(matcher),
        box_coder=FasterRcnnBoxCoder(y_scale=10.0, x_scale=10.0, height_scale=5.0, width_scale=5.0),
        num_classes=4,
        add_background_class=background,
        implicit_class_weight=weight,
    )


@cases(True, False)
def test_golden(*, background):
    case = CASES[f"batch_assign_confidences_background_{background}"]
    inputs, outputs = case.inputs, case.outputs
    boxes, weights, confidences = (
        np.stack([inputs[f"{kind}_0"], inputs[f"{kind}_1"]])
        for kind in ("gt_boxes", "weights", "confidences")
    )
    truth = new_truth(tf.constant(boxes), tf.zeros([2, 2], tf.int32), weights=tf.constant(weights))
    found = _assigner(background, weight=0.3).assign_confidences(
        tf.constant(inputs["anchors"]), truth, tf.constant(confidences[..., int(background) :])
    )
    np.testing.assert_array_equal(found.matched, outputs["match"])
    np.testing.assert_allclose(found.class_targets, outputs["cls_targets"], **TOLERANCE)
    np.testing.assert_allclose(found.class_weights, outputs["cls_weights"], **TOLERANCE)
    np.testing.assert_allclose(found.box_weights, outputs["reg_weights"], **TOLERANCE)
    # The reference writes a box target also where its weight is 0.
    counted = outputs["reg_weights"] > 0
    np.testing.assert_allclose(found.box_targets[counted], outputs["reg_targets"][counted], **TOLERANCE)


def test_classes_stand_for_confidences_and_those_of_scores_are_told_apart():
    found = _assigner(True).assign(ANCHORS, new_truth(ANCHORS[tf.newaxis, :1], tf.constant([[2]])))
    np.testing.assert_allclose(found.class_targets[0], [[0, 0, 0, 1, 0], [1, 0, 0, 0, 0]])
    np.testing.assert_allclose(found.class_weights[0], [[1, 0.1, 0.1, 1, 0.1], [0.1] * 5], rtol=1e-6)
    truth = new_truth(ANCHORS[tf.newaxis], tf.constant([[2, 1]]))
    truth = truth._replace(confidences=tf.constant([[1.0, -1.0]]))
    found = _assigner(True).assign(ANCHORS, truth)
    np.testing.assert_allclose(found.class_targets[0], [[0, 0, 0, 1, 0], [1, 0, 0, 0, 0]])
    np.testing.assert_allclose(found.class_weights[0, 1], [0.1, 0.1, 1, 0.1, 0.1], rtol=1e-6)
    # A class that it is not gives no box to learn.
    np.testing.assert_array_equal(found.box_weights[0], [1, 0])
    scores = tf.constant([[[0.0, 0.0, 0.5, 0.5, 0.0], [0.0, 1.0, 0.0, -1.0, 0.0]]])
    found = _assigner(True).assign(ANCHORS, truth._replace(class_scores=scores, confidences=tf.ones([1, 2])))
    np.testing.assert_allclose(found.class_targets[0], [[0, 0, 1, 1, 0], [0, 1, 0, 0, 0]])
