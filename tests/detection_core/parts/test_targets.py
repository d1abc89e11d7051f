"""Targets of anchors, from objects and from confidences."""

import numpy as np
import pytest
import tensorflow as tf

from detection_core.ops import iou as iou_ops
from detection_core.ops.objects import new_truth
from detection_core.parts.box_coders import KeypointBoxCoder
from detection_core.parts.targets import AnchorTargetAssigner, ConfidenceTargetAssigner
from tests.support.anchor_parts import FASTER, argmax_matcher
from tests.support.batches import random_boxes
from tests.support.cases import cases
from tests.support.golden_cases import GoldenCase, cases_of

CASES = cases_of("detection_core/parts/targets", "target_assigner")
SINGLE = [case for case in CASES.values() if "groundtruth_labels" in case.inputs]
TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}
ANCHORS = tf.constant([[0.0, 0.0, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0]])


def make_assigner(params=(), **options):
    params = dict(params)
    thresholds = (params.get(f"{name}_threshold", 0.5) for name in ("matched", "unmatched"))
    lower = params.get("negatives_lower_than_unmatched", True)
    matcher = argmax_matcher(*thresholds, lower, params.get("force_match_for_each_row", not params))
    return AnchorTargetAssigner(
        similarity=iou_ops.iou,
        matcher=matcher,
        negative_class_weight=params.get("negative_class_weight", 1.0),
        **{"box_coder": FASTER, "num_classes": 3, **options},
    )


def make_truth(boxes, classes, weights=None, valid=None):
    boxes = tf.constant(np.asarray(boxes, np.float32))
    shape = boxes.shape[:2]
    given = {"weights": (weights, tf.float32), "valid": (valid, tf.bool)}
    fields = {name: tf.constant(v, kind, shape) for name, (v, kind) in given.items() if v is not None}
    return new_truth(boxes, tf.constant(classes, tf.int32, shape), **fields)


def _labels_to_classes(labels):
    """One-hot rows with a background column; a row of zeros becomes a class past the last."""
    return np.where(labels.any(axis=-1), labels.argmax(axis=-1) - 1, labels.shape[-1] - 1)


def _check(targets, outputs, image):
    np.testing.assert_array_equal(targets.matched[image], outputs["match"])
    weights = np.broadcast_to(targets.class_weights[image], outputs["cls_weights"].shape)
    for found, name in (
        (targets.class_targets[image], "cls_targets"),
        (weights, "cls_weights"),
        (targets.box_targets[image], "reg_targets"),
        (targets.box_weights[image], "reg_weights"),
    ):
        np.testing.assert_allclose(found, outputs[name], **TOLERANCE, err_msg=name)


@cases(*SINGLE)
def test_golden(*, case: GoldenCase):
    inputs = case.inputs
    labels, rows = inputs["groundtruth_labels"], inputs["groundtruth_boxes"][np.newaxis]
    weights = inputs.get("groundtruth_weights", np.ones(len(labels), np.float32))
    truth = make_truth(rows, [_labels_to_classes(labels)], [weights])
    assigner = make_assigner(case.params, num_classes=labels.shape[-1] - 1)
    found = assigner.assign(tf.constant(inputs["anchors"]), truth)
    _check(found, case.outputs, 0)
    one_hot = tf.one_hot(found.class_columns, assigner.target_columns)
    np.testing.assert_array_equal(one_hot, found.class_targets)
    if case in SINGLE[:2]:  # labels as class scores
        truth = make_truth(rows, np.zeros(rows.shape[:2]), [weights])
        for first in (0, 1):
            scored = truth._replace(class_scores=tf.constant(labels[np.newaxis, :, first:]))
            found = assigner.assign(tf.constant(inputs["anchors"]), scored)
            assert found.class_columns is None
            _check(found, case.outputs, 0)


def test_soft_labels_are_the_targets_of_their_anchors():
    truth = make_truth([[[0.0, 0.0, 0.5, 0.5]]], [[0]])
    assigner = make_assigner(num_classes=2)
    for scores in ([0.1, 0.2, 0.7], [0.2, 0.7]):  # with and without the background's
        soft = truth._replace(class_scores=tf.constant([[scores]]))
        wanted = [[[0.0] * (3 - len(scores)) + scores, [1.0, 0.0, 0.0]]]
        np.testing.assert_allclose(assigner.assign(ANCHORS, soft).class_targets, wanted)
    with pytest.raises(ValueError, match="class scores of 2 classes, found 5 columns"):
        assigner.assign(ANCHORS, truth._replace(class_scores=tf.zeros([1, 1, 5])))


def test_golden_batch_and_without_classes():
    case = CASES["batch_assign"]
    inputs = case.inputs
    truth = make_truth(
        np.stack([inputs["gt_boxes_0"], inputs["gt_boxes_1"]]),
        [_labels_to_classes(inputs["labels_0"]), _labels_to_classes(inputs["labels_1"])],
        np.stack([inputs["weights_0"], inputs["weights_1"]]),
    )
    targets = make_assigner(case.params, num_classes=4).assign(tf.constant(inputs["anchors"]), truth)
    for image in range(2):
        _check(targets, {name: array[image] for name, array in case.outputs.items()}, image)
    case = CASES["class_agnostic_defaults"]
    truth = make_truth(case.inputs["groundtruth_boxes"][np.newaxis], [[0, 0, 0, 0]])
    assigner = make_assigner(case.params, num_classes=1, add_background_class=False)
    _check(assigner.assign(tf.constant(case.inputs["anchors"]), truth), case.outputs, 0)


def _random_batch(seed, batch, rows, anchors):
    """Boxes, anchors and classes."""
    rng, drawn = np.random.default_rng(seed), {"high": 0.8, "sides": (0.05, 0.4)}
    boxes, anchors = random_boxes(rng, batch, rows, **drawn), random_boxes(rng, anchors, **drawn)
    return boxes, tf.constant(anchors), rng.integers(0, 3, (batch, rows))


def test_padding_changes_nothing():
    boxes, anchors, classes = _random_batch(3, 2, 4, 50)
    more = [[0, 0], [0, 3]]
    alone = make_assigner().assign(anchors, make_truth(boxes, classes))
    filled = (np.pad(np.ones((2, 4), kind), more) for kind in (float, bool))
    padded = make_truth(np.pad(boxes, [*more, [0, 0]]), np.pad(classes, more), *filled)
    for found, expected in zip(make_assigner().assign(anchors, padded), alone, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_an_image_without_objects_gives_only_negatives_and_degenerate_boxes_finite_targets():
    anchors = _random_batch(4, 1, 1, 20)[1]
    nothing = np.zeros((2, 3))
    truth = make_truth(np.zeros((2, 3, 4)), nothing, nothing, nothing.astype(bool))
    targets = make_assigner().assign(anchors, truth)
    assert np.all(targets.matched.numpy() == -1)
    assert np.all(targets.class_targets.numpy()[..., 0] == 1)
    assert not targets.box_targets.numpy().any()
    assert np.all(targets.class_weights.numpy() == 1)
    targets = make_assigner().assign(anchors, make_truth([[[0.2, 0.2, 0.2, 0.6]]], [[1]]))
    assert np.all(np.isfinite(targets.box_targets.numpy())) and targets.matched.numpy().max() == 0


def test_background_as_zeros():
    boxes, anchors, classes = _random_batch(5, 2, 3, 60)
    targets = make_assigner(encode_background_as_zeros=True).assign(anchors, make_truth(boxes, classes))
    matched, columns = targets.matched.numpy(), targets.class_targets.numpy()
    assert (matched < 0).any() and (matched >= 0).any()
    assert not columns[matched < 0].any()
    for image, anchor in np.argwhere(matched >= 0):
        assert columns[image, anchor].argmax() == classes[image, matched[image, anchor]] + 1


def test_graph_with_unknown_sizes_equals_eager():
    boxes, anchors, classes = _random_batch(7, 3, 5, 80)
    assigner = make_assigner()
    traced = tf.function(assigner.assign, reduce_retracing=True)
    for rows in (5, 2):
        truth = make_truth(boxes[:, :rows], classes[:, :rows])
        for found, expected in zip(traced(anchors, truth), assigner.assign(anchors, truth), strict=True):
            np.testing.assert_allclose(found, expected, **TOLERANCE)


def test_keypoints_stand_behind_the_box_and_missing_ones_are_told():
    keypoints = tf.constant([[[[0.25, 0.25], [np.nan, np.nan], [0.5, 0.25]]]])
    truth = make_truth([[[0.0, 0.0, 0.5, 0.5]]], [[0]])._replace(keypoints=keypoints)
    coder = KeypointBoxCoder(num_keypoints=3, box_coder=FASTER)
    found = make_assigner(box_coder=coder).assign(ANCHORS, truth).box_targets[0]
    nan = np.nan
    np.testing.assert_allclose(found, [[0, 0, 0, 0, 0, 0, nan, nan, 5, 0], [0] * 10], atol=1e-5)


def _confidence_assigner(background: bool, weight: float = 0.1):
    return ConfidenceTargetAssigner(
        similarity=iou_ops.iou, matcher=argmax_matcher(0.5, 0.4), box_coder=FASTER, num_classes=4,
        add_background_class=background, implicit_class_weight=weight,
    )  # fmt: skip


@cases(True, False)
def test_golden_confidences(*, background):
    case = CASES[f"batch_assign_confidences_background_{background}"]
    inputs, outputs = case.inputs, case.outputs
    boxes, weights, confidences = (
        np.stack([inputs[f"{kind}_0"], inputs[f"{kind}_1"]])
        for kind in ("gt_boxes", "weights", "confidences")
    )
    fields = {"weights": tf.constant(weights), "class_scores": tf.constant(confidences)}
    truth = new_truth(tf.constant(boxes), tf.zeros([2, 2], tf.int32), **fields)
    found = _confidence_assigner(background, weight=0.3).assign(tf.constant(inputs["anchors"]), truth)
    np.testing.assert_array_equal(found.matched, outputs["match"])
    np.testing.assert_allclose(found.class_targets, outputs["cls_targets"], **TOLERANCE)
    np.testing.assert_allclose(found.class_weights, outputs["cls_weights"], **TOLERANCE)
    np.testing.assert_allclose(found.box_weights, outputs["reg_weights"], **TOLERANCE)
    # The reference writes a box target also where its weight is 0.
    counted = outputs["reg_weights"] > 0
    np.testing.assert_allclose(found.box_targets[counted], outputs["reg_targets"][counted], **TOLERANCE)


def test_the_class_weight_of_an_object_counts_in_its_anchors_classes_alone():
    truth = new_truth(ANCHORS[tf.newaxis, :1], tf.constant([[2]]), class_weights=tf.constant([[3.0]]))
    wanted = {1: [[3.0], [1.0]], 5: [[3, 0.3, 0.3, 3, 0.3], [0.1] * 5]}
    for assigner in (make_assigner(num_classes=4), _confidence_assigner(True)):
        found = assigner.assign(ANCHORS, truth)
        np.testing.assert_allclose(found.class_weights[0], wanted[found.class_weights.shape[-1]], rtol=1e-6)
        np.testing.assert_array_equal(found.box_weights[0], [1, 0])


def test_classes_stand_for_confidences_and_those_of_scores_are_told_apart():
    found = _confidence_assigner(True).assign(ANCHORS, new_truth(ANCHORS[tf.newaxis, :1], tf.constant([[2]])))
    np.testing.assert_allclose(found.class_targets[0], [[0, 0, 0, 1, 0], [1, 0, 0, 0, 0]])
    np.testing.assert_allclose(found.class_weights[0], [[1, 0.1, 0.1, 1, 0.1], [0.1] * 5], rtol=1e-6)
    truth = new_truth(ANCHORS[tf.newaxis], tf.constant([[2, 1]]))
    truth = truth._replace(confidences=tf.constant([[1.0, -1.0]]))
    found = _confidence_assigner(True).assign(ANCHORS, truth)
    np.testing.assert_allclose(found.class_targets[0], [[0, 0, 0, 1, 0], [1, 0, 0, 0, 0]])
    np.testing.assert_allclose(found.class_weights[0, 1], [0.1, 0.1, 1, 0.1, 0.1], rtol=1e-6)
    # A class that it is not gives no box to learn.
    np.testing.assert_array_equal(found.box_weights[0], [1, 0])
    scores = tf.constant([[[0.0, 0.0, 0.5, 0.5, 0.0], [0.0, 1.0, 0.0, -1.0, 0.0]]])
    found = _confidence_assigner(True).assign(
        ANCHORS, truth._replace(class_scores=scores, confidences=tf.ones([1, 2]))
    )
    np.testing.assert_allclose(found.class_targets[0], [[0, 0, 1, 1, 0], [0, 1, 0, 0, 0]])
