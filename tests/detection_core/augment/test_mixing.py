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


def _numbered(count, base=2):
    """Samples of which each adds another power to a sum."""
    plain = shining((40, 40), (0, 0, 4, 4))
    return [plain._replace(image=tf.fill([1, 1, 3], tf.constant(float(base**i)))) for i in range(count)]


def _total(sample):
    return int(sample.image[0, 0, 0])


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 33), st.integers(0, 32), st.integers(0, 2**31))
def test_partners_are_all_different_and_others(size, number, seed):
    number %= size
    drawn = [
        int(
            partner_number(
                tf.constant(size, tf.int64), tf.constant(number, tf.int64), i, tf.constant([seed, 1])
            )
        )
        for i in range(size - 1)
    ]
    assert sorted([*drawn, number]) == list(range(size))


def test_who_is_alone_is_its_own_partner():
    one = tf.constant(1, tf.int64)
    assert int(partner_number(one, tf.constant(0, tf.int64), 0, SEED)) == 0


def test_a_mix_takes_distinct_samples_of_the_pool():
    chain = MixedAugmentations(steps=(_Sum(3),))
    totals = set()
    for i in range(20):
        total = _total(chain(pool_of(_numbered(8)), tf.constant([i, 1], tf.int64), mixes=tf.constant(True)))
        assert total & 1 and total.bit_count() == 4
        totals.add(total)
    assert len(totals) > 10


def test_partners_of_a_second_mix_are_mixed_themselves():
    chain, pool = MixedAugmentations(steps=(_Sum(1), _Sum(1))), pool_of(_numbered(6, base=8))
    most = 0
    for i in range(12):
        total = _total(chain(pool, tf.constant([i, 1], tf.int64), mixes=tf.constant(True)))
        taken = [int(digit) for digit in oct(total)[2:]]
        assert sum(taken) == 4 and taken[-1] >= 1
        most = max(most, sum(map(bool, taken)))
    assert most == 4


def test_without_mixing_the_other_steps_remain():
    sample = shining((40, 50), (3, 4, 5, 6))
    pool = pool_of([sample, *_numbered(4)])
    chain = MixedAugmentations(
        steps=(RandomHorizontalFlip(probability=1.0, keypoint_flip_permutation=(0,)), _Sum(3))
    )
    found = chain(pool, SEED, mixes=tf.constant(False))
    np.testing.assert_array_equal(found.image, sample.image[:, ::-1])


def test_partners_go_through_the_steps_before_with_seeds_of_their_own():
    plain = shining((1, 2), (0, 0, 1, 1))
    images = [plain._replace(image=tf.constant([[[v] * 3, [0.0] * 3]])) for v in (1.0, 2.0, 4.0, 8.0)]
    chain = MixedAugmentations(steps=(RandomHorizontalFlip(keypoint_flip_permutation=(0,)), _Sum(3)))
    lefts = set()
    for i in range(40):
        found = chain(pool_of(images), tf.constant([i, 3], tf.int64), mixes=tf.constant(True))
        left, right = (int(v) for v in found.image[0, :, 0])
        assert left + right == 15
        lefts.add(left)
    assert len(lefts) > 8  # one seed for all would flip all or none: 15 or 0


def test_a_graph_gives_what_eager_execution_gives():
    samples = _numbered(6)
    stacked = tf.stack([s.image for s in samples])
    chain = MixedAugmentations(steps=(_Sum(2), RandomHorizontalFlip(keypoint_flip_permutation=(0,))))

    @tf.function
    def changed(seed):
        pool = dataclasses.replace(
            pool_of(samples), read=lambda number: samples[0]._replace(image=stacked[number])
        )
        return chain(pool, seed, mixes=tf.constant(True))

    for i in range(8):
        seed = tf.constant([i, 9], tf.int64)
        tf.nest.map_structure(
            np.testing.assert_array_equal,
            changed(seed).image,
            chain(pool_of(samples), seed, mixes=tf.constant(True)).image,
        )
