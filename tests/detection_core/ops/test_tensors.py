"""Small functions of tensors."""

import pathlib

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.ops.box_fusion import IOU_THRESHOLD, fuse_boxes
from detection_core.ops.iou import ThresholdedIou, negative_squared_distance
from detection_core.ops.leading import NO_CANDIDATE, leading_candidates
from detection_core.ops.objects import keep_objects, new_truth
from detection_core.ops.post_processing import PerClass, PiecewiseLinear, ScoreConverter, Temperature
from detection_core.ops.resampling import pad_bottom_right, resize_masks, resize_pixels
from detection_core.ops.update_draws import draw_seed, draw_uniform, update_draws
from tests.support.cases import cases
from tests.support.golden_cases import load_cases


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


SIZE = tf.constant([3, 4])


def test_an_image_lies_above_and_to_the_left_of_its_padding() -> None:
    image = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    none = tf.zeros([5, 0, 0], tf.uint8)
    (black, kept), (coloured, _) = (pad_bottom_right(image, none, SIZE, c) for c in ((), (1.0, 2.0, 3.0)))
    assert kept.shape == (5, 0, 0)
    for padded, colour in ((black, [0, 0, 0]), (coloured, [1, 2, 3])):
        assert padded.shape == (3, 4, 3)
        np.testing.assert_array_equal(padded[:2, :2], image)
        assert (np.asarray(padded[2]) == colour).all() and (np.asarray(padded[:, 2:]) == colour).all()


def test_masks_are_padded_with_nothing() -> None:
    _, padded = pad_bottom_right(tf.zeros([2, 2, 3]), tf.ones([5, 2, 2], tf.uint8), SIZE, (1.0, 2.0, 3.0))
    assert padded.shape == (5, 3, 4) and int(tf.reduce_sum(tf.cast(padded, tf.int32))) == 20


GOLDEN = np.load(pathlib.Path(__file__).parent / "data" / "weighted_boxes_fusion.npz")


def _fused(rows: np.ndarray, models: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fuse rows of (id, xmin, ymin, xmax, ymax, score, class)."""
    return fuse_boxes(rows[:, 1:5], rows[:, 5], rows[:, 6].astype(np.int32), models=models)


# How many models looked is 2 unless the case's name ends with it.
@cases(
    *((f"four_boxes_models{models}", models) for models in (1, 2, 3)),
    *((name, 2) for name in ("class_out_of_range", "twenty_random", "more_boxes_than_models")),
    *((name, 2) for name in ("below_threshold", "no_known_class")),
)
def test_fused_boxes_are_those_of_the_reference_whatever_the_order(*, name: str, models: int) -> None:
    rows = GOLDEN[f"{name}/input/detections"]
    rows = rows[rows[:, 6] < 5]  # the reference leaves its last class out
    expected = GOLDEN[f"{name}/output/fused"].reshape(-1, 7)
    for ordered in (rows, rows[::-1]) if name == "twenty_random" else (rows,):
        boxes, scores, classes = _fused(ordered, models)
        np.testing.assert_allclose(boxes, expected[:, 1:5], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(scores, expected[:, 5], rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(classes, expected[:, 6])


@st.composite
def detections(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    count = draw(st.integers(0, 12))
    unit = st.floats(0, 1, width=32)
    corners = np.array(draw(st.lists(st.tuples(unit, unit, unit, unit), min_size=count, max_size=count)))
    corners = corners.reshape(-1, 2, 2)
    boxes = np.concatenate([corners.min(1), corners.max(1)], -1).astype(np.float32)
    scores = np.array(draw(st.lists(unit, min_size=count, max_size=count)), np.float32)
    classes = np.array(draw(st.lists(st.integers(0, 2), min_size=count, max_size=count)), np.int32)
    return boxes, scores, classes


@given(detections(), st.integers(1, 4))
@settings(deadline=None, max_examples=60)
def test_boxes_stay_between_what_went_in_and_no_score_grows(found, models: int) -> None:
    boxes, scores, classes = found
    fused, fused_scores, fused_classes = fuse_boxes(boxes, scores, classes, models=models)
    assert len(fused) == len(fused_scores) == len(fused_classes) <= len(boxes)
    assert set(fused_classes) == set(classes)
    assert (np.diff(fused_scores) <= 0).all() and np.isfinite(fused).all()
    for box, score, label in zip(fused, fused_scores, fused_classes, strict=True):
        own = classes == label
        assert score <= scores[own].max() + 1e-6
        assert (box >= boxes[own].min(0) - 1e-6).all() and (box <= boxes[own].max(0) + 1e-6).all()


def test_a_box_exactly_at_the_threshold_is_joined() -> None:
    # 11 x 10 and 20 x 10 pixels, the first inside of the second.
    boxes = np.array([[0, 0, 10, 20], [0, 0, 10, 11]], np.float32)
    fused, *_ = fuse_boxes(boxes, np.array([0.5, 0.5], np.float32), np.zeros(2, np.int32), models=1)
    assert IOU_THRESHOLD == 0.55 and len(fused) == 1


SHAPE = tf.constant([6])


def drawn(seed: int, *position: int, name: str = "a") -> bytes:
    with update_draws(seed, *position):
        return draw_uniform(name, SHAPE).numpy().tobytes()


def test_equal_places_draw_alike_and_every_part_of_the_place_counts() -> None:
    places = [(3, 10, 0, 0), (4, 10, 0, 0), (3, 11, 0, 0), (3, 10, 1, 0), (3, 10, 0, 1)]
    found = [drawn(*place) for place in places] + [drawn(*places[0], name="b")]
    assert len(set(found)) == len(found)
    tf.random.uniform([5])
    assert drawn(*places[0]) == found[0]


def test_a_second_draw_and_one_outside_of_an_update_differ() -> None:
    with update_draws(0, 1):
        first, second = (draw_uniform("a", SHAPE).numpy() for _ in range(2))
    assert not np.array_equal(first, second)
    assert draw_seed("a") is None
    assert not np.array_equal(draw_uniform("a", SHAPE), draw_uniform("a", SHAPE))


def test_a_compiled_update_draws_by_its_number() -> None:
    step = tf.Variable(0, dtype=tf.int64)

    @tf.function
    def draw() -> tf.Tensor:
        with update_draws(3, step, 0):
            return draw_uniform("a", SHAPE)

    found = []
    for number in (0, 1, 0):
        step.assign(number)
        found.append(draw().numpy().tobytes())
    assert found[0] == found[2] == drawn(3, 0, 0) and found[0] != found[1]


CASES = load_cases(__file__, "region_similarity")


@cases(("0p5", 0.5), ("0p1", 0.1), ("default", 0.5))
def test_golden_thresholded_iou(*, name, threshold):
    case = CASES[f"thresholded_iou_{name}"]
    rows, columns, scores = (case.inputs[name] for name in ("boxes1", "boxes2", "scores_of_boxes1"))
    found = ThresholdedIou(iou_threshold=threshold)(rows, columns) * scores[:, np.newaxis]
    np.testing.assert_allclose(found, case.outputs["similarity"], rtol=1e-5, atol=1e-6)


def test_boxes_that_overlap_enough_have_score_one_and_the_nearest_box_is_most_alike():
    boxes = np.float32([[0, 0, 1, 1], [0, 0, 1, 0.6], [0, 0, 0.1, 0.1]])
    np.testing.assert_array_equal(ThresholdedIou(iou_threshold=0.5)(boxes, boxes[:1]), [[1], [1], [0]])
    found = negative_squared_distance(boxes[:1], np.float32([[0, 0, 1, 1], [0, 0, 1, 3]]))
    np.testing.assert_allclose(found, [[0, -4]], atol=1e-6)


def test_order_of_the_steps_and_softmax_competes_over_the_last_axis():
    converter = ScoreConverter(
        activation=tf.sigmoid, logit_scale=2.0, prepare=lambda logits: logits + 4.0,
        calibrate=lambda scores: 1.0 - scores,
    )  # fmt: skip
    expected = 1.0 - 1.0 / (1.0 + np.exp(-(1.0 + 4.0) / 2.0))
    np.testing.assert_allclose(converter(tf.constant([1.0])), [expected], rtol=1e-5)
    scores = ScoreConverter(activation=tf.nn.softmax)(tf.random.stateless_normal([2, 3, 4], seed=[0, 1]))
    np.testing.assert_allclose(tf.reduce_sum(scores, axis=-1), np.ones((2, 3)), rtol=1e-5)


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


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(1, 3), st.integers(1, 40), st.integers(1, 5)),
    levels=st.integers(1, 200),
    threshold=st.sampled_from([0.0, 0.3, 2.0]),
    most=st.tuples(st.integers(1, 50), st.integers(1, 60)),
)
def test_is_the_beginning_of_all_candidates_in_order(seed, shape, levels, threshold, most):
    scores = np.float32(np.random.default_rng(seed).integers(0, levels + 1, shape) / levels)
    found = leading_candidates(scores, threshold, *most)
    anchors = found.anchors.numpy()
    for image, own in enumerate(scores):
        above = zip(*np.nonzero(own > np.float32(threshold)), strict=True)
        rows = [(-own[anchor, label], label, anchor) for anchor, label in above]
        count = int(np.sum(found.scores[image] > NO_CANDIDATE))
        places = found.places[image, :count].numpy()
        labels, listed = places // anchors.shape[1], anchors[image][places % anchors.shape[1]]
        candidates = zip(-found.scores[image, :count].numpy(), labels, listed, strict=True)
        assert list(candidates) == sorted(rows)[:count]
        if found.complete[image]:
            assert count == len(rows)
        elif len(set(own.max(axis=1))) == shape[1]:  # no two anchors alike
            assert count >= min(*most, len(rows)) - 1


def test_all_of_few_candidates_are_found():
    scores = np.zeros((1, 1000, 4), np.float32)
    scores[0, [7, 900, 12], [3, 0, 3]] = [0.5, 0.5, 0.75]
    found = leading_candidates(scores, 0.1, 16, 16)
    assert found.complete[0]
    places = found.places[0, :3].numpy()
    assert list(places // 16) == [3, 0, 3]
    assert list(found.anchors.numpy()[0][places % 16]) == [12, 900, 7]


TRUTH = new_truth(
    boxes=tf.reshape(tf.range(12.0), [3, 4]), classes=tf.constant([5, 6, 7]),
    weights=tf.constant([0.5, 0.6, 0.7]), is_crowd=tf.constant([True, False, True]),
    area=tf.constant([50.0, 60.0, 70.0]), valid=tf.constant([True, True, False]),
    masks=tf.reshape(tf.cast(tf.range(6), tf.uint8), [3, 1, 2]),
)  # fmt: skip


def test_all_fields_are_kept_in_step() -> None:
    for keep, rows in (([True, False, True], [0, 2]), ([2, 0, 0], [2, 0, 0]), ([False] * 3, [])):
        for before, after in zip(TRUTH, keep_objects(TRUTH, tf.constant(keep)), strict=True):
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
