import numpy as np
import pytest
import tensorflow as tf

from detection_core.families.center_net.losses import pixel_weights
from detection_core.families.center_net.network import BOX_OFFSET, BOX_SCALE, OBJECT_CENTER, by_head
from tests.support.center_net_goldens import LABELS, build_small
from tests.support.efficientdet_goldens import padded_truth
from tests.support.golden_cases import load_cases

CASES = load_cases(__file__, "reference")
SIZES = tf.constant([[64, 40]])


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("labels") / "labels.pbtxt"
    path.write_text(LABELS)
    return build_small(labels=str(path), seed=None)


def test_pixels_of_the_image_count_and_padding_does_not():
    case = CASES["valid_anchor_weights"]
    sizes = tf.constant(case.inputs["true_image_shapes"][:, :2]) * 4
    found = pixel_weights(sizes, (case.params["height"], case.params["width"]))
    np.testing.assert_array_equal(tf.reshape(found, [2, -1]), case.outputs["weights"])
    assert pixel_weights(tf.constant([[5, 8]]), (3, 3)).numpy().sum() == 4.0


def _truth(points=((0.25, 0.25), (0.75, 0.5))):
    truth = padded_truth([([[0.2, 0.2, 0.8, 0.6]], [2])])
    padded = np.full([1, truth.boxes.shape[1], 2, 2], np.nan, np.float32)
    padded[0, 0] = points
    known = (~np.isnan(padded[..., 0])).astype(np.float32)
    return truth._replace(keypoints=tf.constant(padded), keypoint_weights=tf.constant(known))


def _losses(small, truth, **changed):
    zeros = {head.name: [tf.zeros([1, 16, 16, head.outputs])] for head in small.parts.heads}
    return small.parts.criterion({**zeros, **changed}, truth, SIZES)


def test_sizes_and_offsets_are_compared_at_the_centre_only(small):
    sizes = np.zeros([1, 16, 16, 2], np.float32)
    sizes[0, 8, 6] = [9.6, 6.4]  # the box's sides on the map, at its centre
    found = _losses(small, _truth(), **{BOX_SCALE: [tf.constant(sizes)]})
    assert float(found[BOX_SCALE]) == pytest.approx(0.0, abs=1e-6)
    assert float(found[BOX_OFFSET]) == pytest.approx(0.4, abs=1e-5)  # of the centre at (8.0, 6.4)
    assert float(_losses(small, _truth())[BOX_SCALE]) == pytest.approx(0.1 * 16.0, rel=1e-5)


def test_heatmaps_are_compared_in_the_image_and_not_in_unknown_keypoints_boxes(small):
    base = _losses(small, _truth())
    high = np.zeros([1, 16, 16, 2], np.float32)
    high[0, :, 10:] = 9.0  # the image ends after the tenth column
    assert float(
        _losses(small, _truth(), **{OBJECT_CENTER: [tf.constant(high)]})[OBJECT_CENTER]
    ) == pytest.approx(float(base[OBJECT_CENTER]))
    heatmap = "corners/keypoint/heatmap"
    unknown = _truth(points=((np.nan, np.nan), (0.75, 0.5)))
    inside = np.zeros([1, 16, 16, 2], np.float32)
    inside[0, 5, 5, 0] = 9.0
    without = _losses(small, unknown)
    assert float(_losses(small, unknown, **{heatmap: [tf.constant(inside)]})[heatmap]) == pytest.approx(
        float(without[heatmap])
    )
    assert float(_losses(small, _truth(), **{heatmap: [tf.constant(inside)]})[heatmap]) > float(base[heatmap])


def test_images_without_objects_have_finite_losses(small):
    truth = _truth()
    empty = truth._replace(weights=tf.zeros_like(truth.weights), boxes=tf.zeros_like(truth.boxes))
    found = _losses(small, empty)
    assert np.isfinite([float(value) for value in found.values()]).all()
    assert float(found[BOX_SCALE]) == float(found["corners/keypoint/offset"]) == 0.0


def test_outputs_are_sorted_by_head(small):
    outputs = list(range(12))
    found = by_head(small.parts.heads, outputs)
    assert found[OBJECT_CENTER] == [0, 1] and found["corners/keypoint/offset"] == [10, 11]
