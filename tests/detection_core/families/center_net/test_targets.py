from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from detection_core.families.center_net.targets import (
    box_deviations,
    box_targets,
    center_heatmaps,
    keypoint_heatmaps,
    keypoint_offsets,
    keypoint_regressions,
    keypoint_truth,
    overlap_distance,
)
from tests.support.golden_cases import load_cases

CASES = load_cases(__file__, "reference")
SHAPE = (16, 24)


class Truth(NamedTuple):
    """The fields that targets are made of."""

    boxes: tf.Tensor
    classes: tf.Tensor
    weights: tf.Tensor
    keypoints: tf.Tensor
    keypoint_weights: tf.Tensor


def _truth(name):
    given = CASES[name].inputs

    def batch(field):
        return (
            np.stack([given[f"{field}_{i}"] for i in (0, 1)])
            if f"{field}_0" in given
            else np.zeros([2, 2, 0])
        )

    return Truth(
        boxes=tf.constant(batch("gt_boxes")),
        classes=tf.constant(batch("gt_classes").argmax(axis=-1), tf.int32),
        weights=tf.constant(batch("gt_weights")),
        keypoints=tf.constant(batch("keypoints"), tf.float32),
        keypoint_weights=tf.constant(batch("keypoint_weights"), tf.float32),
    )


@pytest.mark.parametrize("overlap", [0.7, 0.5])
def test_the_width_of_a_peak_is_the_reference_s(overlap):
    case = CASES[f"max_distance_for_overlap_{overlap}"]
    height, width = (tf.constant(case.inputs[name]) for name in ("height", "width"))
    np.testing.assert_allclose(overlap_distance(height, width, overlap), case.outputs["distance"], rtol=1e-5)
    np.testing.assert_allclose(box_deviations(height, width, overlap), case.outputs["std_dev"], rtol=1e-5)


def test_targets_of_boxes_are_the_reference_s():
    truth, wanted = _truth("box_task"), CASES["box_task"].outputs
    heatmap = center_heatmaps(truth, SHAPE, 4, 0.7)
    np.testing.assert_allclose(heatmap[0], wanted["heatmap"], atol=1e-6)
    assert heatmap[1].numpy().max() == 1.0
    sizes, offsets = box_targets(truth, SHAPE)
    for targets, name in ((sizes, "height_width"), (offsets, "offsets")):
        np.testing.assert_allclose(tf.reshape(targets.values, [-1, 2]), wanted[name], atol=1e-6)
    places = np.stack([[[0, 0], [1, 1]], sizes.rows, sizes.columns], axis=-1).reshape(-1, 3)
    np.testing.assert_array_equal(places, wanted["batch_indices"])
    np.testing.assert_array_equal(tf.reshape(sizes.weights, [-1]), wanted["weights"])


def test_targets_of_keypoints_are_the_reference_s():
    params, wanted = CASES["keypoint_task"].params, CASES["keypoint_task"].outputs
    found = keypoint_truth(_truth("keypoint_task"), SHAPE, 0, tuple(params["keypoint_indices"]))
    drawn = keypoint_heatmaps(found, tuple(params["keypoint_std_dev"]), SHAPE)
    # The second object of the second image is of no class there, and has no weight.
    for i, values in enumerate(drawn):
        np.testing.assert_allclose(values, wanted[f"heatmap_{i}"], atol=1e-6)
    for name, make in (("offset", keypoint_offsets), ("regression", keypoint_regressions)):
        targets = make(found, params["peak_radius"], SHAPE)
        image = np.repeat([[0], [1]], targets.rows.shape[1], axis=1)
        places = np.stack([image, targets.rows, targets.columns, targets.channels], axis=-1).reshape(-1, 4)
        np.testing.assert_array_equal(places[:, : wanted[f"{name}_0"].shape[1]], wanted[f"{name}_0"])
        np.testing.assert_allclose(tf.reshape(targets.values, [-1, 2]), wanted[f"{name}_1"], atol=1e-5)
        np.testing.assert_array_equal(tf.reshape(targets.weights, [-1]), wanted[f"{name}_2"])
