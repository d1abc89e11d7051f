"""Augmentations of several images, and grids of masks."""

import dataclasses
import functools

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.augment import mixing
from detection_core.augment.augmentation import RandomApply, in_floats
from detection_core.augment.geometry import HORIZONTAL, flip
from detection_core.augment.mixing import GREY, Mosaic
from detection_core.augment.patches import GridMask, centre_of, turned
from detection_core.ops.objects import new_truth
from detection_core.structures import Sample
from tests.detection_core.augment.mixing_samples import BOXES_PX, SIZES, bounds, partners, pool_of, shining
from tests.support.cases import cases
from tests.support.golden_cases import load_cases

SEED = tf.constant([5, 6], tf.int64)
FLIP = functools.partial(flip, axis=HORIZONTAL, permutation=(0,))


@dataclasses.dataclass(frozen=True)
class _Sum(mixing.Mixing):
    """Add up the pixels of a sample and its partners."""

    count: int

    def __call__(self, sample, partner, seed):
        images = [sample.image, *(partner(i).image for i in range(self.count))]
        return in_floats(sample)._replace(image=tf.add_n([tf.cast(image, tf.float32) for image in images]))


def _image(image):
    return shining((40, 40), (0, 0, 4, 4))._replace(image=tf.constant(image))


def _numbered(count, base=2):
    """Samples of which each adds another power to a sum."""
    return [_image(np.full([1, 1, 3], float(base**i), np.float32)) for i in range(count)]


def _total(sample):
    return int(sample.image[0, 0, 0])


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 33), st.integers(0, 32), st.integers(0, 2**31))
def test_partners_are_all_different_and_others(size, number, seed):
    number %= size
    pool = tf.constant(size, tf.int64), tf.constant(number, tf.int64)
    drawn = [int(mixing.partner_number(*pool, i, tf.constant([seed, 1]))) for i in range(size - 1)]
    assert sorted([*drawn, number]) == list(range(size))
    one = tf.constant(1, tf.int64)
    assert int(mixing.partner_number(one, tf.constant(0, tf.int64), 0, SEED)) == 0, "alone it is its own"


def _mixed(chain, samples, *seed):
    return chain(pool_of(samples), tf.constant(seed, tf.int64), mixes=tf.constant(True))


def test_a_mix_takes_distinct_samples_of_the_pool_and_of_a_second_mix_mixed_ones():
    chain = mixing.MixedAugmentations(steps=(_Sum(3),))
    totals = {_total(_mixed(chain, _numbered(8), i, 1)) for i in range(20)}
    assert all(total & 1 and total.bit_count() == 4 for total in totals) and len(totals) > 10
    chain, most = mixing.MixedAugmentations(steps=(_Sum(1), _Sum(1))), 0
    for i in range(12):
        total = _total(_mixed(chain, _numbered(6, base=8), i, 1))
        taken = [int(digit) for digit in oct(total)[2:]]
        assert sum(taken) == 4 and taken[-1] >= 1
        most = max(most, sum(map(bool, taken)))
    assert most == 4


def test_steps_remain_without_mixing_and_are_applied_to_partners_with_seeds_of_their_own():
    sample = shining((40, 50), (3, 4, 5, 6))
    pool = pool_of([sample, *_numbered(4)])
    always = RandomApply(change=FLIP, probability=1.0)
    chain = mixing.MixedAugmentations(steps=(always, _Sum(3)))
    np.testing.assert_array_equal(chain(pool, SEED, mixes=tf.constant(False)).image, sample.image[:, ::-1])
    images = [_image([[[value] * 3, [0.0] * 3]]) for value in (1.0, 2.0, 4.0, 8.0)]
    chain = mixing.MixedAugmentations(steps=(RandomApply(change=FLIP), _Sum(3)))
    sides = {tuple(_mixed(chain, images, i, 3).image.numpy()[0, :, 0]) for i in range(40)}
    assert {left + right for left, right in sides} == {15}
    assert len(sides) > 8  # one seed for all would flip all or none: 15 or 0


def test_a_graph_gives_what_eager_execution_gives():
    samples = _numbered(6)
    stacked = tf.stack([s.image for s in samples])
    chain = mixing.MixedAugmentations(steps=(_Sum(2), RandomApply(change=FLIP)))

    @tf.function
    def changed(seed):
        read = lambda number: samples[0]._replace(image=stacked[number])  # noqa: E731
        pool = dataclasses.replace(pool_of(samples), read=read)
        return chain(pool, seed, mixes=tf.constant(True)).image

    for i in range(8):
        found = changed(tf.constant([i, 9], tf.int64))
        np.testing.assert_array_equal(found, _mixed(chain, samples, i, 9).image)


SQUARE = (44, 44)


def _pixels(box, size=SQUARE):
    shown = np.zeros(size, bool)
    row, column, rows, columns = box
    shown[row : row + rows, column : column + columns] = True
    return shown


def _float(sample):
    return sample._replace(image=tf.cast(sample.image, tf.float32))


@settings(max_examples=60, deadline=None)
@given(BOXES_PX, BOXES_PX, st.booleans())
def test_what_is_hidden_is_cut_and_what_is_pasted_is_seen(box, moved, masks):
    below, above = (_float(shining(SQUARE, b, channel=i, masks=masks)) for i, b in enumerate((box, moved)))
    least = 0.3003  # no share of so few pixels: at one, rounding would decide
    found = mixing.pasted(below, above, min_visible=least)
    under, over = _pixels(box), _pixels(moved)
    np.testing.assert_array_equal(found.image.numpy()[..., 1] > 0, over)
    np.testing.assert_array_equal(found.image.numpy()[..., 0] > 0, under & ~over)
    seen = (under & ~over).sum() / under.sum()
    classes = found.truth.classes.numpy().tolist()
    assert classes == ([0, 1] if seen >= least else [1])
    np.testing.assert_allclose(found.truth.boxes[-1], above.truth.boxes[0])
    if masks:
        np.testing.assert_array_equal(found.truth.masks.numpy()[-1] > 0, over)
    if classes == [0, 1] and masks:
        np.testing.assert_array_equal(found.truth.masks.numpy()[0] > 0, under & ~over)
        np.testing.assert_allclose(found.truth.boxes[0] * 44, bounds(under & ~over), atol=1e-3)
    elif classes == [0, 1]:
        np.testing.assert_allclose(found.truth.boxes[0], below.truth.boxes[0])


@settings(max_examples=30, deadline=None)
@given(SIZES, BOXES_PX, SIZES, BOXES_PX, st.booleans(), st.integers(0, 2**31))
def test_objects_are_where_their_pixels_are(size, box, other, moved, masks, seed):
    below, above = shining(size, box, masks=masks), shining(other, moved, channel=1, masks=masks)
    step = mixing.CopyPaste(object_probability=1.0)
    found = step(below, partners(above), tf.constant([seed, 1], tf.int64))
    assert found.image.shape == (*size, 3) and found.image.dtype == tf.float32
    boxes = found.truth.boxes.numpy()
    assert (boxes >= 0).all() and (boxes <= 1).all()
    for number, corners in zip(found.truth.classes.numpy(), boxes * np.tile(size, 2), strict=True):
        bright = found.image.numpy()[..., number] > 127
        if number == 1 and bright.any():
            np.testing.assert_allclose(bounds(bright), corners, atol=2.0)


def test_only_chosen_objects_are_pasted_and_never_a_crowd():
    boxes = tf.constant([[0.1 * i, 0.0, 0.1 * i + 0.05, 0.1] for i in range(10)])
    keypoints = {"keypoints": tf.zeros([10, 1, 2]), "keypoint_weights": tf.zeros([10, 1])}
    truth = new_truth(boxes, tf.range(10), is_crowd=tf.range(10) == 3, **keypoints)
    many = Sample(tf.fill([40, 40, 3], tf.constant(9, tf.uint8)), truth, tf.constant(""))
    below = shining((40, 40), (30, 30, 5, 5), channel=2)
    step, counts = mixing.CopyPaste(object_probability=0.4, scale_min=1.0, scale_max=1.0), []
    for i in range(40):
        classes = step(below, partners(many), tf.constant([i, 5], tf.int64)).truth.classes.numpy().tolist()
        assert classes[0] == 2 and 3 not in classes[1:]
        counts.append(len(classes) - 1)
    assert 2.8 < np.mean(counts) < 4.4  # of 9


def test_without_a_paste_the_sample_stays():
    below, above = shining((40, 40), (3, 3, 5, 5)), shining((40, 40), (0, 0, 9, 9), channel=1)
    for step in (mixing.CopyPaste(probability=0.0), mixing.CopyPaste(object_probability=0.0)):
        found = step(below, partners(above), tf.constant([1, 5], tf.int64))
        np.testing.assert_array_equal(found.image, tf.cast(below.image, tf.float32))
        np.testing.assert_array_equal(found.truth.boxes, below.truth.boxes)


@settings(max_examples=30, deadline=None)
@given(st.lists(BOXES_PX, max_size=4))
def test_rectangles_and_their_boxes(boxes):
    normalised = np.array([[b[0], b[1], b[0] + b[2], b[1] + b[3]] for b in boxes]).reshape(-1, 4) / 44
    shapes = mixing.rectangles(tf.constant(normalised, tf.float32), tf.constant(44), tf.constant(44))
    expected = np.array([_pixels(b) for b in boxes], bool).reshape(-1, 44, 44)
    np.testing.assert_array_equal(shapes.numpy() > 0, expected)
    np.testing.assert_allclose(mixing.boxes_of_masks(shapes), normalised, atol=1e-6)
    assert mixing.boxes_of_masks(tf.zeros([1, 5, 6], tf.uint8)).numpy().tolist() == [[0, 0, 0, 0]]


@settings(max_examples=30, deadline=None)
@given(SIZES, BOXES_PX, SIZES, BOXES_PX, st.floats(0, 1, width=32))
def test_pixels_and_weights_are_blended_and_boxes_stay_where_they_are(size, box, other, moved, part):
    first, second = shining(size, box, masks=True), shining(other, moved, channel=1, masks=True)
    found = mixing.blended(first, second, tf.constant(part))
    frame = np.maximum(size, other)
    assert found.image.shape == (*frame, 3)
    expected = np.zeros([*frame, 3])
    for (row, column, rows, columns), channel, weight in ((box, 0, part), (moved, 1, 1 - part)):
        expected[row : row + rows, column : column + columns, channel] = 255 * weight
    np.testing.assert_allclose(found.image, expected, atol=1e-2)
    # TensorFlow flushes subnormal numbers to zero.
    np.testing.assert_allclose(found.truth.weights, [part, 1 - part], rtol=1e-6, atol=1e-37)
    pixels = found.truth.boxes.numpy() * np.tile(frame, 2)
    boxes = [[b[0], b[1], b[0] + b[2], b[1] + b[3]] for b in (box, moved)]
    np.testing.assert_allclose(pixels, boxes, atol=1e-3)
    assert found.truth.masks.numpy().sum((1, 2)).tolist() == [b[2] * b[3] for b in (box, moved)]
    assert found.source_id == first.source_id


def test_the_part_follows_the_beta_distribution_and_the_probability_is_kept():
    step = mixing.MixUp(alpha=1.5)
    parts = [float(step.part(tf.constant([i, 8], tf.int64))) for i in range(400)]
    # Beta(a, a) has the mean 1/2 and the variance 1 / (8 a + 4).
    assert abs(np.mean(parts) - 0.5) < 0.05 and abs(np.var(parts) - 1 / 16) < 0.012
    sample, other = shining((40, 40), (0, 0, 5, 5)), shining((40, 40), (9, 9, 5, 5))
    step = mixing.MixUp(probability=0.4)
    found = [step(sample, partners(other), tf.constant([i, 8], tf.int64)) for i in range(80)]
    counts = [len(one.truth.boxes) for one in found]
    assert set(counts) == {1, 2} and 20 <= counts.count(2) <= 44


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


GRID_SEED = tf.constant([3, 4], tf.int64)


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
    np.testing.assert_array_equal(step(_grey(), GRID_SEED).truth.boxes, _grey().truth.boxes)
    for side in (1, 2, 3, 5):
        assert GridMask(threshold=9.0)(_grey(side, side), GRID_SEED).image.shape == (side, side, 3)
