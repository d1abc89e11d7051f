"""Augmentations of several images."""

import dataclasses

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.augment import mixing
from detection_core.augment.augmentation import in_floats
from detection_core.augment.geometry import RandomHorizontalFlip
from detection_core.ops.objects import new_truth
from detection_core.structures import Sample
from tests.detection_core.augment.mixing_samples import BOXES_PX, SIZES, bounds, partners, pool_of, shining

SEED = tf.constant([5, 6], tf.int64)


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
    flip = RandomHorizontalFlip(probability=1.0, keypoint_flip_permutation=(0,))
    chain = mixing.MixedAugmentations(steps=(flip, _Sum(3)))
    np.testing.assert_array_equal(chain(pool, SEED, mixes=tf.constant(False)).image, sample.image[:, ::-1])
    images = [_image([[[value] * 3, [0.0] * 3]]) for value in (1.0, 2.0, 4.0, 8.0)]
    chain = mixing.MixedAugmentations(steps=(RandomHorizontalFlip(keypoint_flip_permutation=(0,)), _Sum(3)))
    sides = {tuple(_mixed(chain, images, i, 3).image.numpy()[0, :, 0]) for i in range(40)}
    assert {left + right for left, right in sides} == {15}
    assert len(sides) > 8  # one seed for all would flip all or none: 15 or 0


def test_a_graph_gives_what_eager_execution_gives():
    samples = _numbered(6)
    stacked = tf.stack([s.image for s in samples])
    chain = mixing.MixedAugmentations(steps=(_Sum(2), RandomHorizontalFlip(keypoint_flip_permutation=(0,))))

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
