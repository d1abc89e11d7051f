"""Mosaics, and grids of masks."""

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.augment.mixing import GREY, Mosaic
from detection_core.augment.patches import GridMask, centre_of, turned
from detection_core.ops.objects import new_truth
from detection_core.structures import Sample
from tests.detection_core.augment.mixing_samples import BOXES_PX, SIZES, bounds, partners, shining
from tests.support.cases import cases
from tests.support.golden_cases import load_cases

CASES = load_cases(__file__, "automl")
SEEDS = st.tuples(st.integers(0, 2**31), st.integers(0, 2**31))
PARTS = st.lists(st.tuples(SIZES, BOXES_PX), min_size=4, max_size=4)


def _seed(seed):
    return tf.constant(seed, tf.int64)


def _sample(image, boxes=()):
    """Boxes are columns and rows of the image, as in [xmin, ymin, xmax, ymax]."""
    rows, columns = image.shape[:2]
    boxes = np.reshape(boxes, (-1, 4))[:, [1, 0, 3, 2]] / [rows, columns, rows, columns]
    truth = new_truth(tf.constant(boxes, tf.float32), tf.zeros(len(boxes), tf.int32))
    return Sample(tf.constant(image), truth, tf.constant(""))


@cases("mosaic_32x32", "mosaic_40x24")
def test_stretched_quarters_are_those_of_google_automl(*, name):
    case = CASES[name]
    height, width = case.params["out_size"]
    mosaic = Mosaic(height=height, width=width)
    # They call it (x, y), and cut rows at the first of them.
    samples = list(map(_sample, case.inputs["images"], case.inputs["boxes_int"]))
    found = mosaic.joined(samples, tf.constant(case.params["divide_points_xy"]))
    np.testing.assert_allclose(found.image, case.outputs["image"], rtol=1e-5, atol=1e-3)
    expected = np.concatenate([case.outputs[f"boxes_{i}"] for i in range(4)])[:, [1, 0, 3, 2]]
    boxes = found.truth.boxes.numpy() * [height, width, height, width]
    np.testing.assert_allclose(boxes, expected, rtol=1e-5, atol=1e-4)


def test_defaults_are_those_of_google_automl():
    facts = CASES["mosaic_defaults"].facts["fact"]
    mosaic = Mosaic()
    assert [mosaic.height, mosaic.width] == facts["out_size"]
    assert mosaic.min_fraction == facts["minimum_mosaic_image_dim_percent"] / 100
    points = np.array([mosaic.point(tf.constant(d)) for d in ([0.0, 0.0], [0.9999999, 0.9999999])])
    assert points.tolist() == [[170, 170], [509, 509]]  # integers from 25 % to below 75 %


@settings(max_examples=25, deadline=None)
@given(PARTS, st.sampled_from(["STRETCH", "KEEP_ASPECT_RATIO"]), SEEDS)
def test_each_object_is_where_its_pixels_are(parts, fit, seed):
    mosaic = Mosaic(height=96, width=120, fit=fit, min_visible=0.0)
    # Four colours of two channels; the third tells the padding.
    samples = [shining(size, box, channel=i % 2, masks=True) for i, (size, box) in enumerate(parts)]
    samples = [s._replace(truth=s.truth._replace(classes=tf.fill([1], i))) for i, s in enumerate(samples)]
    found = mosaic(samples[0], partners(*samples[1:]), _seed(seed))
    assert found.image.shape == (96, 120, 3) and found.image.dtype == tf.float32
    boxes = found.truth.boxes.numpy()
    assert (boxes >= 0).all() and (boxes <= 1).all() and (boxes[:, 2:] > boxes[:, :2]).all()
    assert found.source_id == samples[0].source_id and len(set(found.truth.classes.numpy())) == len(boxes)
    if fit == "STRETCH":
        assert found.truth.classes.numpy().tolist() == [0, 1, 2, 3]
    for number, box, mask in zip(found.truth.classes.numpy(), boxes, found.truth.masks.numpy(), strict=True):
        if not mask.any():
            continue
        corners = box * [96, 120, 96, 120]
        np.testing.assert_allclose(bounds(mask), corners, atol=1.5)
        top, left, bottom, right = (round(float(c)) for c in corners)
        middle = found.image.numpy()[(top + bottom) // 2, (left + right) // 2]
        if min(bottom - top, right - left) > 3:
            assert middle[number % 2] > 200 and middle[1 - number % 2] < 50


def test_images_that_keep_their_shape_touch_the_point_and_leave_grey():
    white = _sample(np.full([20, 60, 3], 255, np.uint8), [0, 0, 60, 20])
    found = Mosaic(height=120, width=120, fit="KEEP_ASPECT_RATIO").joined([white] * 4, tf.constant([60, 60]))
    image = found.image.numpy()
    assert (image[40:80] == 255).all()  # 60 wide fits half of 120 as it is
    assert (image[:40] == GREY[0]).all() and (image[80:] == GREY[0]).all()
    expected = [[40, 0, 60, 60], [60, 0, 80, 60], [40, 60, 60, 120], [60, 60, 80, 120]]
    np.testing.assert_allclose(found.truth.boxes.numpy() * 120, expected, atol=1e-3)


def test_what_is_cut_off_or_empty_is_left_out_and_the_probability_followed():
    sample = shining((40, 50), (0, 0, 6, 6))
    mosaic = Mosaic(height=80, width=80, probability=0.3)
    found = [mosaic(sample, partners(*[sample] * 3), _seed((i, 1))) for i in range(100)]
    mixed = [one.image.shape == (80, 80, 3) for one in found]
    assert 18 <= sum(mixed) <= 42
    alone = found[mixed.index(False)]
    np.testing.assert_array_equal(alone.image, tf.cast(sample.image, tf.float32))
    np.testing.assert_array_equal(alone.truth.boxes, sample.truth.boxes)
    sample, empty = shining((60, 60), (0, 0, 6, 6)), _sample(np.zeros([30, 30, 3], np.uint8))
    mosaic = Mosaic(height=120, width=120, fit="KEEP_ASPECT_RATIO", min_visible=0.5)
    # Above and left of (40, 40), the first 20 rows of an image of 60 are cut off.
    found = mosaic.joined([sample] * 4, tf.constant([40, 40]))
    assert len(found.truth.boxes) == 1  # only that of the image below and to the right
    np.testing.assert_allclose(found.truth.boxes[0] * 120, [40, 40, 46, 46], atol=1e-3)
    found = Mosaic(height=64, width=64)(empty, partners(empty, empty, empty), _seed((1, 2)))
    assert found.truth.boxes.shape == (0, 4) and found.image.shape == (64, 64, 3)


SEED = tf.constant([3, 4], tf.int64)


def _grey(height=40, width=56):
    truth = new_truth(tf.constant([[0.1, 0.1, 0.5, 0.5]]), tf.zeros([1], tf.int32))
    return Sample(tf.fill([height, width, 3], 200.0), truth, tf.constant(""))


@cases(*[name for name in CASES if name.startswith("gridmask_grid")])
def test_golden_grid(*, name):
    case = CASES[name]
    mask = GridMask(ratio=case.params.get("ratio", 0.6))
    period, *others = case.params["draws"]
    draws = [period, *others] if len(others) == 3 else [period, 0.0, *others]
    size = tf.constant([case.params["h"], case.params["w"]])
    found = mask.mask(size, tf.constant(draws))
    np.testing.assert_array_equal(found, case.outputs["mask"])
    np.testing.assert_array_equal(centre_of(found, size), case.outputs["centre_crop"])


def test_some_images_lose_squares_as_the_defaults_say_and_keep_their_objects():
    theirs = CASES["gridmask_defaults"].facts["fact"]["pipeline_function"]
    ours = GridMask()
    assert (ours.threshold, ours.ratio, ours.rotate) == (theirs["prob"], theirs["ratio"], theirs["rotate"])
    assert ours.gridmask_size_ratio == theirs["gridmask_size_ratio"]
    mask = GridMask().mask(tf.constant([40, 56]), tf.constant([0.0, 0.0, 0.2, 0.7]))
    np.testing.assert_array_equal(turned(mask, tf.constant(0.0)), mask)
    assert not np.array_equal(turned(mask, tf.constant(15.0)), mask)
    step = tf.function(GridMask())
    images = [step(_grey(), tf.constant([i, 0], tf.int64)).image.numpy() for i in range(60)]
    black = np.array([(image == 0).any() for image in images])
    assert all(set(np.unique(image)) <= {0.0, 200.0} for image in images)
    assert 0.5 < black.mean() < 0.86  # a standard normal draw is below 0.5 in 69 % of cases
    np.testing.assert_array_equal(step(_grey(), SEED).truth.boxes, _grey().truth.boxes)
    for side in (1, 2, 3, 5):
        assert GridMask(threshold=9.0)(_grey(side, side), SEED).image.shape == (side, side, 3)
