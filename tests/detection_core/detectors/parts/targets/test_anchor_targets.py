import numpy as np
import pytest
import tensorflow as tf

from detection_core.detectors.parts.box_coders.faster_rcnn import FasterRcnnBoxCoder
from detection_core.detectors.parts.box_coders.keypoint import KeypointBoxCoder
from detection_core.detectors.parts.matchers.argmax import ArgMaxMatcher, ArgMaxMatcherOptions
from detection_core.detectors.parts.targets.anchor_targets import AnchorTargetAssigner
from detection_core.ops import iou as iou_ops
from detection_core.ops.objects import new_truth
from tests.support.batches import random_boxes
from tests.support.cases import cases
from tests.support.golden_cases import GoldenCase, load_cases

CASES = load_cases(__file__, "target_assigner")
SINGLE = [case for case in CASES.values() if "groundtruth_labels" in case.inputs]
TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}


BOX_CODER = FasterRcnnBoxCoder(y_scale=10.0, x_scale=10.0, height_scale=5.0, width_scale=5.0)


def make_assigner(params=(), **options):
    thresholds = {
        "matched_threshold": 0.5,
        "unmatched_threshold": 0.5,
        "negatives_lower_than_unmatched": True,
        "force_match_for_each_row": False,
    }
    params = dict(params)
    matcher = ArgMaxMatcherOptions(**{name: params.get(name, value) for name, value in thresholds.items()})
    return AnchorTargetAssigner(
        similarity=iou_ops.iou,
        matcher=ArgMaxMatcher(matcher),
        negative_class_weight=params.get("negative_class_weight", 1.0),
        **{"box_coder": BOX_CODER, **options},
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
    labels = inputs["groundtruth_labels"]
    weights = inputs.get("groundtruth_weights", np.ones(len(labels), np.float32))
    truth = make_truth(inputs["groundtruth_boxes"][np.newaxis], [_labels_to_classes(labels)], [weights])
    assigner = make_assigner(case.params, num_classes=labels.shape[-1] - 1)
    found = assigner.assign(tf.constant(inputs["anchors"]), truth)
    _check(found, case.outputs, 0)
    one_hot = tf.one_hot(found.class_columns, assigner.target_columns)
    np.testing.assert_array_equal(one_hot, found.class_targets)


@cases(*SINGLE[:2])
def test_golden_labels_as_class_scores(*, case: GoldenCase):
    labels, rows = case.inputs["groundtruth_labels"], case.inputs["groundtruth_boxes"][np.newaxis]
    weights = [case.inputs["groundtruth_weights"]]
    truth = make_truth(rows, np.zeros(rows.shape[:2]), weights)
    assigner = make_assigner(case.params, num_classes=labels.shape[-1] - 1)
    for first in (0, 1):
        scores = tf.constant(labels[np.newaxis, :, first:])
        found = assigner.assign(tf.constant(case.inputs["anchors"]), truth._replace(class_scores=scores))
        assert found.class_columns is None
        _check(found, case.outputs, 0)


def test_soft_labels_are_the_targets_of_their_anchors():
    anchors = tf.constant([[0.0, 0.0, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0]])
    truth = make_truth([[[0.0, 0.0, 0.5, 0.5]]], [[0]])
    with_background = truth._replace(class_scores=tf.constant([[[0.1, 0.2, 0.7]]]))
    assigner = make_assigner(num_classes=2)
    found = assigner.assign(anchors, with_background).class_targets
    np.testing.assert_allclose(found, [[[0.1, 0.2, 0.7], [1.0, 0.0, 0.0]]])
    without = truth._replace(class_scores=tf.constant([[[0.2, 0.7]]]))
    np.testing.assert_allclose(
        assigner.assign(anchors, without).class_targets, [[[0.0, 0.2, 0.7], [1.0, 0.0, 0.0]]]
    )
    with pytest.raises(ValueError, match="class scores of 2 classes, found 5 columns"):
        assigner.assign(anchors, truth._replace(class_scores=tf.zeros([1, 1, 5])))


def test_golden_without_classes():
    case = CASES["class_agnostic_defaults"]
    truth = make_truth(case.inputs["groundtruth_boxes"][np.newaxis], [[0, 0, 0, 0]])
    assigner = make_assigner(case.params, num_classes=1, add_background_class=False)
    _check(assigner.assign(tf.constant(case.inputs["anchors"]), truth), case.outputs, 0)


def test_golden_batch():
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


def _random_batch(rng, batch, rows, anchors):
    boxes, anchors = (
        random_boxes(rng, *shape, high=0.8, sides=(0.05, 0.4)) for shape in ((batch, rows), (anchors,))
    )
    return boxes, anchors, rng.integers(0, 3, (batch, rows))


def test_padding_changes_nothing():
    boxes, anchors, classes = _random_batch(np.random.default_rng(3), 2, 4, 50)
    assigner = make_assigner({"force_match_for_each_row": True}, num_classes=3)
    alone = assigner.assign(tf.constant(anchors), make_truth(boxes, classes))
    padded = make_truth(
        np.concatenate([boxes, np.zeros((2, 3, 4), np.float32)], axis=1),
        np.pad(classes, [[0, 0], [0, 3]]),
        np.pad(np.ones((2, 4)), [[0, 0], [0, 3]]),
        np.pad(np.ones((2, 4), bool), [[0, 0], [0, 3]]),
    )
    for found, expected in zip(assigner.assign(tf.constant(anchors), padded), alone, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_image_without_objects_gives_only_negatives():
    anchors = _random_batch(np.random.default_rng(4), 1, 1, 20)[1]
    truth = make_truth(np.zeros((2, 3, 4)), np.zeros((2, 3)), np.zeros((2, 3)), np.zeros((2, 3), bool))
    targets = make_assigner({"force_match_for_each_row": True}, num_classes=3).assign(
        tf.constant(anchors), truth
    )
    assert np.all(targets.matched.numpy() == -1)
    assert np.all(targets.class_targets.numpy()[..., 0] == 1)
    assert not targets.box_targets.numpy().any()
    assert np.all(targets.class_weights.numpy() == 1)


def test_background_as_zeros():
    boxes, anchors, classes = _random_batch(np.random.default_rng(5), 2, 3, 60)
    forced = {"force_match_for_each_row": True}
    assigner = make_assigner(forced, num_classes=3, encode_background_as_zeros=True)
    targets = assigner.assign(tf.constant(anchors), make_truth(boxes, classes))
    negatives = targets.matched.numpy() < 0
    assert negatives.any()
    assert not targets.class_targets.numpy()[negatives].any()
    positives = np.argwhere(~negatives)
    assert len(positives)
    for image, anchor in positives:
        row = targets.matched.numpy()[image, anchor]
        assert targets.class_targets.numpy()[image, anchor].argmax() == classes[image, row] + 1


def test_degenerate_ground_truth_leaves_finite_targets():
    anchors = _random_batch(np.random.default_rng(6), 1, 1, 30)[1]
    truth = make_truth([[[0.2, 0.2, 0.2, 0.6]]], [[1]])
    targets = make_assigner({"force_match_for_each_row": True}, num_classes=3).assign(
        tf.constant(anchors), truth
    )
    assert np.all(np.isfinite(targets.box_targets.numpy()))


def test_graph_with_unknown_sizes_equals_eager():
    boxes, anchors, classes = _random_batch(np.random.default_rng(7), 3, 5, 80)
    assigner = make_assigner({"force_match_for_each_row": True}, num_classes=3)
    traced = tf.function(assigner.assign, reduce_retracing=True)
    for rows in (5, 2):
        truth = make_truth(boxes[:, :rows], classes[:, :rows])
        eager = assigner.assign(tf.constant(anchors), truth)
        for found, expected in zip(traced(tf.constant(anchors), truth), eager, strict=True):
            np.testing.assert_allclose(found, expected, **TOLERANCE)


def test_keypoints_stand_behind_the_box_and_missing_ones_are_told():
    anchors = tf.constant([[0.0, 0.0, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0]])
    keypoints = tf.constant([[[[0.25, 0.25], [np.nan, np.nan], [0.5, 0.25]]]])
    truth = make_truth([[[0.0, 0.0, 0.5, 0.5]]], [[0]])._replace(keypoints=keypoints)
    coder = KeypointBoxCoder(num_keypoints=3, box_coder=BOX_CODER)
    assigner = make_assigner(num_classes=2, box_coder=coder)
    found = assigner.assign(anchors, truth).box_targets[0]
    nan = np.nan
    np.testing.assert_allclose(found, [[0, 0, 0, 0, 0, 0, nan, nan, 5, 0], [0] * 10], atol=1e-5)
