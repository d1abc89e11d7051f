import numpy as np
import tensorflow as tf

from detection_core.augment import augmentation
from detection_core.augment.augmentation import Augmentations, apply_with_probability, random_int
from detection_core.augment.colour import RandomAdjustBrightness
from detection_core.augment.geometry import RandomHorizontalFlip, RandomVerticalFlip
from tests.detection_core.augment.golden_samples import CASES, SEED, golden_sample


def test_augmentations_change_in_turn_or_not_at_all_and_each_of_several_is_chosen():
    sample = golden_sample(CASES["horizontal_flip"])
    tf.nest.map_structure(np.testing.assert_array_equal, Augmentations()(sample, SEED), sample)
    step = RandomAdjustBrightness(max_delta=0.3)
    once, twice = Augmentations(augmentations=(step,)), Augmentations(augmentations=(step, step))
    first = np.asarray(once(sample, SEED).image, np.float64)
    second = np.asarray(twice(sample, SEED).image, np.float64)
    inside = (first > 0) & (first < 255) & (second > 0) & (second < 255)
    moved_once = np.median((first - sample.image)[inside])
    moved_twice = np.median((second - first)[inside])
    assert abs(moved_once - moved_twice) > 1e-2
    sample = golden_sample(CASES["horizontal_flip_taken"])
    flips = RandomHorizontalFlip(probability=1.0), RandomVerticalFlip(probability=1.0)
    step = tf.function(augmentation.OneOf(augmentations=flips))
    images = {np.asarray(step(sample, tf.constant([i, 0], tf.int64)).image).tobytes() for i in range(12)}
    assert images == {np.asarray(sample.image)[:, ::-1].tobytes(), np.asarray(sample.image)[::-1].tobytes()}


def test_draws_fill_their_range_evenly_and_a_change_has_its_probability():
    draws = tf.linspace(0.0, 1.0, 400)[:-1]
    numbers, counts = np.unique(random_int(draws, -1, 2), return_counts=True)
    assert numbers.tolist() == [-1, 0, 1, 2] and counts.min() >= 99
    assert random_int(tf.constant(0.99999997), 3, 3) == 3
    found = augmentation.scaled(tf.constant([0.0, 0.5, 1.0]), -2.0, 4.0)
    np.testing.assert_allclose(found, [-2.0, 1.0, 4.0])
    sample = golden_sample(CASES["horizontal_flip"])

    def changed(choose, draw, probability):
        result = choose(tf.constant(draw), probability, lambda s: s._replace(image=s.image * 0), sample)
        return not np.any(result.image)

    assert [changed(apply_with_probability, draw, 0.25) for draw in (0.0, 0.24, 0.25, 0.9)] == [1, 1, 0, 0]
    skip = augmentation.skip_with_probability
    assert [changed(skip, draw, 0.25) for draw in (0.0, 0.25, 0.26, 0.9)] == [0, 0, 1, 1]
    assert not changed(apply_with_probability, 0.0, 0.0) and changed(apply_with_probability, 0.999, 1.0)
