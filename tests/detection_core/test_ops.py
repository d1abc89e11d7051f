"""Operations on boxes, keypoints, masks, scores and objects; suppression, fusion and draws have files."""

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.ops import boxes as box_ops
from detection_core.ops import iou as iou_ops
from detection_core.ops.calibration import PerClass, PiecewiseLinear, Temperature
from detection_core.ops.keypoints import (
    hide_outside,
    keypoints_in_window,
    mirror_keypoints,
    reorder_keypoints,
    turn_keypoints,
    with_keypoints,
)
from detection_core.ops.objects import keep_objects, new_truth
from detection_core.ops.padding import pad_bottom_right, pad_masks_bottom_right
from detection_core.ops.post_processing import ScoreConverter
from detection_core.ops.resampling import resize_masks, resize_pixels
from detection_core.ops.similarities import ThresholdedIou, negative_squared_distance
from tests.support.batches import random_boxes
from tests.support.cases import cases
from tests.support.golden_cases import cases_of


@settings(deadline=None, max_examples=60)
@given(box=st.tuples(*[st.floats(-2, 2, width=32)] * 4))
def test_centers_and_back_and_clipped_boxes_lie_in_the_window(box):
    boxes = np.float32([box])
    np.testing.assert_allclose(box_ops.from_centers(box_ops.to_centers(boxes)), boxes, atol=1e-6)
    clipped = box_ops.clip(boxes, WINDOW).numpy()[0]
    assert np.all(clipped[:2] >= WINDOW[:2]) and np.all(clipped[2:] <= WINDOW[2:])
    np.testing.assert_array_equal(box_ops.clip(clipped, WINDOW), clipped)


WINDOW = np.float32([0.25, 0.5, 0.75, 1.0])


def test_boxes_by_hand():
    boxes = np.float32([[0.1, 0.2, 0.3, 0.7], [0.5, 0.5, 0.4, 0.6]])
    np.testing.assert_allclose(box_ops.area(boxes), [0.1, -0.01], rtol=1e-5)
    np.testing.assert_allclose(box_ops.scale(boxes, 10.0, 100.0)[0], [1, 20, 3, 70], rtol=1e-5)
    np.testing.assert_allclose(box_ops.change_frame(WINDOW, WINDOW), [0, 0, 1, 1])
    inside = np.float32([[0.5, 0.75, 0.75, 1.0]])
    np.testing.assert_allclose(box_ops.change_frame(inside, WINDOW), [[0.5, 0.5, 1, 1]])
    images = np.tile(np.float32([0.0, 0.0, 1.0, 1.0]), (2, 3, 1))
    windows = np.float32([[0, 0, 0.5, 0.5], [0.5, 0.5, 1, 1]])
    np.testing.assert_allclose(box_ops.clip(images, windows[:, np.newaxis])[:, 1], windows)


SIMILARITIES = cases_of("detection_core/ops", "region_similarity")
TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}
SIDES = (0.0, 0.5)
IOU_OPS = {
    "op_intersection": iou_ops.intersection,
    "op_matched_intersection": iou_ops.matched_intersection,
    "op_matched_iou": iou_ops.matched_iou,
    "op_giou": iou_ops.matched_giou,
}


def _slow(first, second):
    """Intersection, areas of both and area of the enclosing box."""
    height = max(0.0, min(first[2], second[2]) - max(first[0], second[0]))
    width = max(0.0, min(first[3], second[3]) - max(first[1], second[1]))
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (first, second)]
    enclosing = (max(first[2], second[2]) - min(first[0], second[0])) * (
        max(first[3], second[3]) - min(first[1], second[1])
    )
    return height * width, *areas, enclosing


@cases(*sorted(IOU_OPS))
def test_golden_similarities(*, name):
    case = SIMILARITIES[name]
    found = IOU_OPS[name](case.inputs["boxes1"], case.inputs["boxes2"])
    np.testing.assert_allclose(found, case.outputs["value"], **TOLERANCE)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32 - 1))
def test_pairs_and_giou_equal_a_loop(seed):
    rng = np.random.default_rng(seed)
    rows, columns = (random_boxes(rng, *shape, sides=SIDES) for shape in ((2, 3), (4,)))
    found = [op(rows, columns[np.newaxis]).numpy() for op in (iou_ops.intersection, iou_ops.iou, iou_ops.ioa)]
    for image, row, column in np.ndindex(2, 3, 4):
        shared, one, other, _ = _slow(rows[image, row], columns[column])
        expected = (shared, shared / (one + other - shared or 1), shared / (other or 1))
        np.testing.assert_allclose([f[image, row, column] for f in found], expected, rtol=1e-3, atol=1e-5)
    first, second = (random_boxes(rng, 5, sides=SIDES) for _ in range(2))
    first = first + np.float32([0, 0, 0.01, 0.01])
    giou = iou_ops.matched_giou(first, second).numpy()
    for place in range(5):
        shared, one, other, enclosing = _slow(first[place], second[place])
        union = one + other - shared
        np.testing.assert_allclose(giou[place], shared / union - (enclosing - union) / enclosing, atol=1e-4)
    assert np.all(giou <= iou_ops.matched_iou(first, second).numpy() + 1e-6)
    assert np.all(giou >= -1.0 - 1e-6)


def test_boxes_without_area_share_nothing_and_squared_distance_equals_a_loop():
    point = np.float32([[0.5, 0.5, 0.5, 0.5]])
    for op in (iou_ops.iou, iou_ops.ioa, iou_ops.matched_giou):
        assert op(point, point).numpy().item() == 0.0
    rng = np.random.default_rng(0)
    rows, columns = random_boxes(rng, 3), random_boxes(rng, 4)
    expected = [[np.sum((row - column) ** 2) for column in columns] for row in rows]
    np.testing.assert_allclose(iou_ops.squared_distance(rows, columns), expected, rtol=1e-4, atol=1e-5)


SIMILARITIES = cases_of("detection_core/ops", "region_similarity")


@cases(("0p5", 0.5), ("0p1", 0.1), ("default", 0.5))
def test_golden_thresholded_iou_with_scores(*, name, threshold):
    case = SIMILARITIES[f"thresholded_iou_{name}"]
    found = ThresholdedIou(iou_threshold=threshold).with_scores(
        case.inputs["boxes1"], case.inputs["boxes2"], case.inputs["scores_of_boxes1"]
    )
    np.testing.assert_allclose(found, case.outputs["similarity"], rtol=1e-5, atol=1e-6)


def test_ground_truth_has_score_one_and_the_nearest_box_is_most_alike():
    boxes = np.float32([[0, 0, 1, 1], [0, 0, 1, 0.6], [0, 0, 0.1, 0.1]])
    np.testing.assert_array_equal(ThresholdedIou(iou_threshold=0.5)(boxes, boxes[:1]), [[1], [1], [0]])
    found = negative_squared_distance(boxes[:1], np.float32([[0, 0, 1, 1], [0, 0, 1, 3]]))
    np.testing.assert_allclose(found, [[0, -4]], atol=1e-6)


@settings(deadline=None, max_examples=40)
@given(x=st.lists(st.integers(0, 50), min_size=1, max_size=6, unique=True), seed=st.integers(0, 2**32 - 1))
def test_piecewise_linear_equals_numpy(x, seed):
    rng = np.random.default_rng(seed)
    xs = np.sort(np.array(x)) / 50
    ys = rng.uniform(0, 1, len(xs))
    scores = rng.uniform(-0.2, 1.2, (2, 3)).astype(np.float32)
    found = PiecewiseLinear(x=tuple(xs), y=tuple(ys))(scores)
    np.testing.assert_allclose(found, np.interp(scores, xs, ys), rtol=1e-4, atol=1e-5)


def test_per_class_leaves_the_others_alone_and_temperature_divides():
    line = PiecewiseLinear(x=(0.0, 1.0), y=(1.0, 0.0))
    scores = np.float32([[0.1, 0.2, 0.3]])
    np.testing.assert_allclose(PerClass(functions={1: line, 7: line})(scores), [[0.1, 0.8, 0.3]], rtol=1e-5)
    np.testing.assert_allclose(Temperature(scaler=4.0)(np.float32([2.0, -8.0])), [0.5, -2.0])


def test_order_of_the_steps_to_a_score_and_softmax_competes_over_the_last_axis():
    converter = ScoreConverter(
        activation=tf.sigmoid,
        logit_scale=2.0,
        prepare=lambda logits: logits + 4.0,
        calibrate=lambda scores: 1.0 - scores,
    )
    expected = 1.0 - 1.0 / (1.0 + np.exp(-(1.0 + 4.0) / 2.0))
    np.testing.assert_allclose(converter(tf.constant([1.0])), [expected], rtol=1e-5)
    scores = ScoreConverter(activation=tf.nn.softmax)(tf.random.stateless_normal([2, 3, 4], seed=[0, 1]))
    np.testing.assert_allclose(tf.reduce_sum(scores, axis=-1), np.ones((2, 3)), rtol=1e-5)


KEYPOINTS = cases_of("detection_core/ops", "keypoints")


KEYPOINT_OPS = {
    "kp_prune": lambda points, given: hide_outside(points, tf.constant(given["window"], tf.float32)),
    "kp_frame": lambda points, given: keypoints_in_window(points, tf.constant(given["window"], tf.float32)),
    "kp_flip_h": lambda points, given: tf.gather(mirror_keypoints(points, 1), given["permutation"], axis=1),
    "kp_flip_v": lambda points, given: tf.gather(mirror_keypoints(points, 0), given["permutation"], axis=1),
    "kp_rot90": lambda points, given: tf.gather(turn_keypoints(points), given["permutation"], axis=1),
}


@cases(*KEYPOINTS)
def test_golden_keypoints(*, name: str) -> None:
    case = KEYPOINTS[name]
    found = KEYPOINT_OPS[name](tf.constant(case.inputs["keypoints"]), case.params)
    np.testing.assert_allclose(found, case.outputs["value"], rtol=1e-5, atol=1e-6)


def test_reordering_takes_weights_along_and_what_is_hidden_weighs_nothing() -> None:
    without = new_truth(tf.zeros([1, 4]), tf.zeros([1], tf.int32))
    truth = without._replace(
        keypoints=tf.constant([[[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]]),
        keypoint_weights=tf.constant([[1.0, 0.0, 2.0]]),
    )
    found = reorder_keypoints(truth, (2, 0, 1))
    np.testing.assert_allclose(found.keypoints[0, :, 0], [0.5, 0.1, 0.3])
    np.testing.assert_allclose(found.keypoint_weights[0], [2.0, 1.0, 0.0])
    assert reorder_keypoints(truth, ()).keypoints.shape == (1, 3, 2)
    assert reorder_keypoints(without, (2, 0, 1)).keypoints.shape == (1, 0, 2)
    found = with_keypoints(truth, hide_outside(truth.keypoints, tf.constant([0.0, 0.0, 0.4, 0.4])))
    np.testing.assert_array_equal(found.keypoint_weights, [[1.0, 0.0, 0.0]])
    np.testing.assert_array_equal(np.isnan(found.keypoints[0]).any(axis=1), [False, False, True])


TRUTH = new_truth(
    boxes=tf.reshape(tf.range(12.0), [3, 4]),
    classes=tf.constant([5, 6, 7]),
    weights=tf.constant([0.5, 0.6, 0.7]),
    is_crowd=tf.constant([True, False, True]),
    area=tf.constant([50.0, 60.0, 70.0]),
    valid=tf.constant([True, True, False]),
    masks=tf.reshape(tf.cast(tf.range(6), tf.uint8), [3, 1, 2]),
)


def test_all_fields_are_kept_in_step() -> None:
    for keep, rows in (
        (tf.constant([True, False, True]), [0, 2]),
        (tf.constant([2, 0, 0]), [2, 0, 0]),
        (tf.constant([False] * 3), []),
    ):
        for before, after in zip(TRUTH, keep_objects(TRUTH, keep), strict=True):
            np.testing.assert_array_equal(after, np.asarray(before)[rows])


def test_what_is_not_given_says_nothing_and_has_no_size_where_it_need_not() -> None:
    for leading in ((3,), (2, 3)):
        found = new_truth(tf.zeros([*leading, 4]), tf.zeros(leading, tf.int32), area=tf.ones(leading))
        assert all(tuple(field.shape[: len(leading)]) == leading for field in found)
        assert found.masks.shape[-2:] == (0, 0) and found.masks.dtype == tf.uint8
        assert found.class_scores.shape[-1] == found.keypoint_weights.shape[-1] == 0
        assert found.keypoints.shape[-2:] == (0, 2)
        assert np.all(found.weights == 1) and np.all(found.confidences == 1) and np.all(found.area == 1)
        assert np.all(found.valid) and not np.any(found.is_crowd)
    made = tf.function(
        lambda boxes: new_truth(boxes, tf.zeros(tf.shape(boxes)[:1], tf.int32)),
        input_signature=[tf.TensorSpec([None, 4], tf.float32)],
    )
    spec = made.get_concrete_function().structured_outputs
    assert spec.masks.shape[1:] == [0, 0] and spec.keypoints.shape[1:] == [0, 2]
    assert spec.weights.shape.as_list() == [None]


PADDED = tf.constant([3, 4])


def test_an_image_lies_above_and_to_the_left_of_its_padding() -> None:
    image = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    black, coloured = pad_bottom_right(image, PADDED), pad_bottom_right(image, PADDED, (1.0, 2.0, 3.0))
    for padded, colour in ((black, [0, 0, 0]), (coloured, [1, 2, 3])):
        assert padded.shape == (3, 4, 3)
        np.testing.assert_array_equal(padded[:2, :2], image)
        assert (np.asarray(padded[2]) == colour).all() and (np.asarray(padded[:, 2:]) == colour).all()


def test_masks_are_padded_with_nothing_and_unused_ones_stay() -> None:
    padded = pad_masks_bottom_right(tf.ones([5, 2, 2], tf.uint8), PADDED)
    assert padded.shape == (5, 3, 4) and int(tf.reduce_sum(tf.cast(padded, tf.int32))) == 20
    assert pad_masks_bottom_right(tf.zeros([5, 0, 0], tf.uint8), PADDED).shape == (5, 0, 0)


def _bilinear(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """Bilinear interpolation without a half-pixel shift, one pixel after another."""
    rows, columns, channels = image.shape
    out = np.zeros((height, width, channels))
    for i in range(height):
        for j in range(width):
            y, x = i * rows / height, j * columns / width
            top, left = int(y), int(x)
            bottom, right = min(top + 1, rows - 1), min(left + 1, columns - 1)
            upper = image[top, left] * (1 - (x - left)) + image[top, right] * (x - left)
            lower = image[bottom, left] * (1 - (x - left)) + image[bottom, right] * (x - left)
            out[i, j] = upper * (1 - (y - top)) + lower * (y - top)
    return out


@cases((3, 5), (11, 17), (7, 9))
def test_bilinear_is_that_of_a_loop(*, size: tuple[int, int]) -> None:
    image = np.random.default_rng(0).uniform(0, 255, (7, 9, 3))
    found = resize_pixels(tf.constant(image, tf.float32), tf.constant(size))
    np.testing.assert_allclose(found, _bilinear(image, *size), rtol=1e-4, atol=1e-2)


def test_aligned_corners_keep_their_values_and_a_constant_stays_constant() -> None:
    image = tf.constant(np.random.default_rng(1).uniform(0, 255, (4, 6, 2)), tf.float32)
    found = resize_pixels(image, tf.constant([7, 11]), align_corners=True)
    np.testing.assert_allclose(found[::6, ::10], image[::3, ::5], rtol=1e-5)
    for method in ("BILINEAR", "NEAREST_NEIGHBOR", "BICUBIC", "AREA"):
        found = resize_pixels(tf.fill([5, 6, 3], tf.constant(200, tf.uint8)), tf.constant([9, 4]), method)
        assert found.dtype == tf.float32
        np.testing.assert_allclose(found, np.full((9, 4, 3), 200.0), rtol=1e-5, err_msg=method)


def test_masks_take_the_nearest_pixel_and_unused_ones_stay_without_size() -> None:
    masks = tf.constant(np.random.default_rng(2).integers(0, 2, (2, 4, 6)), tf.uint8)
    found = np.asarray(resize_masks(masks, tf.constant([8, 3])))
    np.testing.assert_array_equal(found, np.repeat(np.asarray(masks), 2, axis=1)[:, :, ::2])
    assert resize_masks(masks[:0], tf.constant([8, 3])).shape == (0, 8, 3)
    assert resize_masks(tf.zeros([3, 0, 0], tf.uint8), tf.constant([8, 3])).shape == (3, 0, 0)
