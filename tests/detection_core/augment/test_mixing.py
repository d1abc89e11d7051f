import dataclasses

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.augment.geometry import RandomHorizontalFlip
from detection_core.augment.mixing import MixedAugmentations, Mixing, partner_number, unmixed
from tests.detection_core.augment.mixing_samples import pool_of, shining

SEED = tf.constant([5, 6], tf.int64)


@dataclasses.dataclass(frozen=True)
class _Sum(Mixing):
    """Add up the pixels of a sample and its partners."""

    count: int

    def __call__(self, sample, partner, seed):
        images = [sample.image, *(partner(i).image for i in range(self.count))]
        return unmixed(sample)._replace(image=tf.add_n([tf.cast(image, tf.float32) for image in images]))


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
    drawn = [int(partner_number(*pool, i, tf.constant([seed, 1]))) for i in range(size - 1)]
    assert sorted([*drawn, number]) == list(range(size))
    one = tf.constant(1, tf.int64)
    assert int(partner_number(one, tf.constant(0, tf.int64), 0, SEED)) == 0, "alone it is its own"


def _mixed(chain, samples, *seed):
    return chain(pool_of(samples), tf.constant(seed, tf.int64), mixes=tf.constant(True))


def test_a_mix_takes_distinct_samples_of_the_pool_and_of_a_second_mix_mixed_ones():
    chain = MixedAugmentations(steps=(_Sum(3),))
    totals = {_total(_mixed(chain, _numbered(8), i, 1)) for i in range(20)}
    assert all(total & 1 and total.bit_count() == 4 for total in totals) and len(totals) > 10
    chain, most = MixedAugmentations(steps=(_Sum(1), _Sum(1))), 0
    for i in range(12):
        total = _total(_mixed(chain, _numbered(6, base=8), i, 1))
        taken = [int(digit) for digit in oct(total)[2:]]
        assert sum(taken) == 4 and taken[-1] >= 1
        most = max(most, sum(map(bool, taken)))
    assert most == 4


def test_steps_remain_without_mixing_and_are_applied_to_partners_with_seeds_of_their_own():
    sample = shining((40, 50), (3, 4, 5, 6))
    pool = pool_of([sample, *_numbered(4)])
    chain = MixedAugmentations(
        steps=(RandomHorizontalFlip(probability=1.0, keypoint_flip_permutation=(0,)), _Sum(3))
    )
    found = chain(pool, SEED, mixes=tf.constant(False))
    np.testing.assert_array_equal(found.image, sample.image[:, ::-1])
    images = [_image([[[value] * 3, [0.0] * 3]]) for value in (1.0, 2.0, 4.0, 8.0)]
    chain = MixedAugmentations(steps=(RandomHorizontalFlip(keypoint_flip_permutation=(0,)), _Sum(3)))
    sides = {tuple(_mixed(chain, images, i, 3).image.numpy()[0, :, 0]) for i in range(40)}
    assert {left + right for left, right in sides} == {15}
    assert len(sides) > 8  # one seed for all would flip all or none: 15 or 0


def test_a_graph_gives_what_eager_execution_gives():
    samples = _numbered(6)
    stacked = tf.stack([s.image for s in samples])
    chain = MixedAugmentations(steps=(_Sum(2), RandomHorizontalFlip(keypoint_flip_permutation=(0,))))

    @tf.function
    def changed(seed):
        read = lambda number: samples[0]._replace(image=stacked[number])  # noqa: E731
        pool = dataclasses.replace(pool_of(samples), read=read)
        return chain(pool, seed, mixes=tf.constant(True)).image

    for i in range(8):
        found = changed(tf.constant([i, 9], tf.int64))
        np.testing.assert_array_equal(found, _mixed(chain, samples, i, 9).image)
