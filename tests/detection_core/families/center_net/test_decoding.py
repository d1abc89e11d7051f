import numpy as np
import pytest
import tensorflow as tf
from numpy.lib.stride_tricks import sliding_window_view

from detection_core.families.center_net import decoding
from tests.support.golden_cases import load_cases

CASES = load_cases(__file__, "reference")
PEAKS = [case for name, case in CASES.items() if name.startswith("top_k")]


@pytest.mark.parametrize("case", PEAKS, ids=lambda case: case.name)
def test_peaks_are_the_reference_s(case):
    find = decoding.top_peaks_of_channels if case.params["per_channel"] else decoding.top_peaks
    heatmaps = tf.constant(case.inputs["feature_map"])
    found = find(heatmaps, case.params["k"], case.params["max_pool_kernel_size"])
    for values, name in zip(found, ("scores", "y_indices", "x_indices", "channel_indices"), strict=True):
        np.testing.assert_array_equal(values, case.outputs[name], err_msg=name)


@pytest.mark.parametrize("window", [3, 5])
def test_of_equal_values_in_a_window_one_is_a_peak(window):
    """Of values of few steps, as an int8 file has them; random ones differ."""
    rng = np.random.default_rng(window)
    steps = rng.integers(1, 4, (4, 9, 11, 2)).astype(np.float32) / 4.0
    for heatmaps in (steps, rng.uniform(0.1, 1.0, steps.shape).astype(np.float32)):
        found = decoding.only_peaks(tf.constant(heatmaps), window).numpy()
        largest = tf.nn.max_pool2d(heatmaps, window, 1, "SAME").numpy()
        equal = np.where(heatmaps == largest, heatmaps, 0.0)
        assert ((found == 0.0) | (found == equal)).all() and (found > 0.0).any(axis=(1, 2)).all()
        if heatmaps is not steps:
            np.testing.assert_array_equal(found, equal)
        near = 2 * [window // 2 + 1]
        assert sliding_window_view(found > 0.0, near, (1, 2)).sum(axis=(-2, -1)).max() == 1


def test_maps_with_fewer_pixels_than_peaks_give_all_that_they_have():
    heatmaps = tf.constant([[[[0.2, 0.9], [0.5, 0.1]]]])
    assert decoding.top_peaks(heatmaps, 100, 1).scores.shape == (1, 4)
    found = decoding.top_peaks_of_channels(heatmaps, 3, 1)
    np.testing.assert_allclose(found.scores, [[0.5, 0.2, 0.0, 0.9, 0.1, 0.0]])
    np.testing.assert_array_equal(found.channels, [[0, 0, 0, 1, 1, 1]])


def test_boxes_are_the_reference_s_on_the_map_and_in_true_images():
    given, wanted = CASES["boxes"].inputs, CASES["boxes"].outputs
    peaks = decoding.Peaks(None, tf.constant(given["y_indices"]), tf.constant(given["x_indices"]), None)
    boxes = decoding.boxes_at(peaks, tf.constant(given["height_width"]), tf.constant(given["offsets"]))
    np.testing.assert_allclose(boxes, wanted["boxes_strided"], rtol=1e-5)
    sizes = tf.constant(given["true_image_shapes"][:, :2])
    found = tf.clip_by_value(decoding.in_true_images(boxes, sizes, 4), 0.0, 1.0)
    np.testing.assert_allclose(found, wanted["boxes_normalized"], rtol=1e-5)
