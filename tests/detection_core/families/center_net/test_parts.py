"""Peaks, keypoints, targets and losses against the reference's, and against loops."""

import functools
import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from numpy.lib.stride_tricks import sliding_window_view

from detection_core.errors import ConfigError
from detection_core.families.center_net import decoding, targets
from detection_core.families.center_net.build import keypoint_labels
from detection_core.families.center_net.losses import pixel_weights
from detection_core.families.center_net.network import BOX_OFFSET, BOX_SCALE, OBJECT_CENTER, by_head
from tests.support.cases import cases, refused
from tests.support.center_net_goldens import LABELS, build_small, small_config
from tests.support.efficientdet_goldens import padded_truth
from tests.support.golden_cases import load_cases

CASES = load_cases(__file__, "reference")
PEAKS = [case for name, case in CASES.items() if name.startswith("top_k")]


@cases(*PEAKS)
def test_peaks_are_the_reference_s(*, case):
    find = decoding.top_peaks_of_channels if case.params["per_channel"] else decoding.top_peaks
    heatmaps = tf.constant(case.inputs["feature_map"])
    found = find(heatmaps, case.params["k"], case.params["max_pool_kernel_size"])
    for values, name in zip(found, ("scores", "y_indices", "x_indices", "channel_indices"), strict=True):
        np.testing.assert_array_equal(values, case.outputs[name], err_msg=name)


@cases(3, 5)
def test_of_equal_values_in_a_window_one_is_a_peak(*, window):
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


NAMES = ("keypoint_candidates", "keypoint_scores", "num_keypoint_candidates")


@cases("shared_offset", "per_keypoint_offset")
def test_candidates_are_the_reference_s(*, name):
    case = CASES[f"keypoint_candidates_{name}"]
    options = decoding.Refinement(
        score_threshold=case.params["keypoint_score_threshold"],
        window=case.params["max_pool_kernel_size"],
        candidates=case.params["max_candidates"],
    )
    found = decoding.find_candidates(
        tf.constant(case.inputs["heatmap"]), tf.constant(case.inputs["offsets"]), options
    )
    for values, output in zip(found[:3], ("candidates", "scores", "num_candidates"), strict=True):
        np.testing.assert_allclose(values, case.outputs[output], rtol=1e-5, err_msg=output)


def _case(name):
    given = CASES[name].inputs
    found = decoding.Candidates(*(tf.constant(given[each]) for each in NAMES))
    boxes = tf.constant(given["bboxes"]) if "bboxes" in given else None
    return tf.constant(given["regressed_keypoints"]), found, boxes


@cases(*itertools.product(("min_distance", "score_distance_ratio"), ("boxes", "noboxes")))
def test_refined_keypoints_are_the_reference_s(*, ranking, boxes):
    name = f"refine_keypoints_{ranking}_{boxes}"
    found = decoding.refine(*_case(name), decoding.Refinement(ranking=ranking, distance_offset=1e-6))[:2]
    for values, output in zip(found, ("keypoints", "scores"), strict=True):
        np.testing.assert_allclose(values, CASES[name].outputs[output], rtol=1e-5, err_msg=output)


@cases(True, False)
def test_keypoints_in_true_images_are_the_reference_s(*, clipped):
    case = CASES[f"normalized_keypoints_clip_{clipped}"]
    sizes = tf.constant(case.inputs["true_image_shapes"][:, :2])
    points = decoding.in_true_images(tf.constant(case.inputs["keypoints"]), sizes, 4)
    scores = tf.constant(case.inputs["scores"])
    points, scores = decoding.clip_to_image(points, scores) if clipped else (points, scores)
    np.testing.assert_allclose(points, case.outputs["keypoints"], rtol=1e-5)
    np.testing.assert_allclose(scores, case.outputs["scores"], rtol=1e-5)


def test_an_object_s_score_is_multiplied_by_the_mean_of_its_visible_keypoints():
    keypoints = tf.constant([[[0.9, 0.5, 0.1], [0.1, 0.1, 0.1], [0.9, 0.9, 0.9]]])
    of_task = tf.constant([[True, True, False]])
    found = decoding.rescore(
        tf.constant([[0.8, 0.6, 0.5]]), of_task, keypoints, decoding.Refinement(rescoring_threshold=0.2)
    )
    np.testing.assert_allclose(found, [[0.8 * 0.7, 0.0, 0.5]], rtol=1e-6)


def test_classes_and_keypoints_are_those_of_the_label_map(tmp_path):
    path = tmp_path / "labels.pbtxt"
    path.write_text(LABELS)
    message = small_config(labels=str(path)).model.center_net
    (found,) = keypoint_labels(message, "m", inspected=False)
    assert (found.class_index, found.indices, found.names) == (1, (0, 1), ("start", "end"))
    message.keypoint_estimation_task[0].keypoint_class_name = "dark"
    read = functools.partial(keypoint_labels, message, "m", inspected=False)
    refused(ConfigError, "with keypoints, bright, found 'dark'", read)
    message.keypoint_label_map_path = "PATH_TO_BE_CONFIGURED"
    where = refused(ConfigError, "a label map with the keypoints", read).where
    assert where == "m.keypoint_label_map_path"
    (found,) = keypoint_labels(message, "m", inspected=True)
    assert found.names == ("end",)


SHAPE = (16, 24)


def _golden_truth(name):
    given = CASES[name].inputs

    def batch(field):
        return np.stack([given.get(f"{field}_{i}", np.zeros([2, 0])) for i in (0, 1)])

    fields = {"weights": "gt_weights", "keypoints": "keypoints", "keypoint_weights": "keypoint_weights"}
    return SimpleNamespace(
        boxes=tf.constant(batch("gt_boxes")),
        classes=tf.constant(batch("gt_classes").argmax(axis=-1), tf.int32),
        **{name: tf.constant(batch(field), tf.float32) for name, field in fields.items()},
    )


@cases(0.7, 0.5)
def test_the_width_of_a_peak_is_the_reference_s(*, overlap):
    case = CASES[f"max_distance_for_overlap_{overlap}"]
    height, width = (tf.constant(case.inputs[name]) for name in ("height", "width"))
    np.testing.assert_allclose(
        targets.overlap_distance(height, width, overlap), case.outputs["distance"], rtol=1e-5
    )
    np.testing.assert_allclose(
        targets.box_deviations(height, width, overlap), case.outputs["std_dev"], rtol=1e-5
    )


def test_targets_of_boxes_are_the_reference_s():
    truth, wanted = _golden_truth("box_task"), CASES["box_task"].outputs
    heatmap = targets.center_heatmaps(truth, SHAPE, 4, 0.7)
    np.testing.assert_allclose(heatmap[0], wanted["heatmap"], atol=1e-6)
    assert heatmap[1].numpy().max() == 1.0
    sizes, offsets = targets.box_targets(truth, SHAPE)
    for found, name in ((sizes, "height_width"), (offsets, "offsets")):
        np.testing.assert_allclose(tf.reshape(found.values, [-1, 2]), wanted[name], atol=1e-6)
    places = np.stack([[[0, 0], [1, 1]], sizes.rows, sizes.columns], axis=-1).reshape(-1, 3)
    np.testing.assert_array_equal(places, wanted["batch_indices"])
    np.testing.assert_array_equal(tf.reshape(sizes.weights, [-1]), wanted["weights"])


def test_targets_of_keypoints_are_the_reference_s():
    params, wanted = CASES["keypoint_task"].params, CASES["keypoint_task"].outputs
    known = targets.keypoint_truth(
        _golden_truth("keypoint_task"), SHAPE, 0, tuple(params["keypoint_indices"])
    )
    drawn = targets.keypoint_heatmaps(known, tuple(params["keypoint_std_dev"]), SHAPE)
    # The second object of the second image is of no class there, and has no weight.
    for i, values in enumerate(drawn):
        np.testing.assert_allclose(values, wanted[f"heatmap_{i}"], atol=1e-6)
    for name, make in (("offset", targets.keypoint_offsets), ("regression", targets.keypoint_regressions)):
        made = make(known, params["peak_radius"], SHAPE)
        image = np.repeat([[0], [1]], made.rows.shape[1], axis=1)
        places = np.stack([image, made.rows, made.columns, made.channels], axis=-1).reshape(-1, 4)
        np.testing.assert_array_equal(places[:, : wanted[f"{name}_0"].shape[1]], wanted[f"{name}_0"])
        np.testing.assert_allclose(tf.reshape(made.values, [-1, 2]), wanted[f"{name}_1"], atol=1e-5)
        np.testing.assert_array_equal(tf.reshape(made.weights, [-1]), wanted[f"{name}_2"])


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
    def loss(head, truth, **outputs):
        return float(_losses(small, truth, **outputs)[head])

    high, inside = np.zeros([2, 1, 16, 16, 2], np.float32)
    high[0, :, 10:] = 9.0  # the image ends after the tenth column
    high = {OBJECT_CENTER: [tf.constant(high)]}
    assert loss(OBJECT_CENTER, _truth(), **high) == pytest.approx(loss(OBJECT_CENTER, _truth()))
    heatmap = "corners/keypoint/heatmap"
    inside[0, 5, 5, 0] = 9.0
    inside, unknown = {heatmap: [tf.constant(inside)]}, _truth(points=((np.nan, np.nan), (0.75, 0.5)))
    assert loss(heatmap, unknown, **inside) == pytest.approx(loss(heatmap, unknown))
    assert loss(heatmap, _truth(), **inside) > loss(heatmap, _truth())


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
