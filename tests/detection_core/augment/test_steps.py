from __future__ import annotations

import numpy as np
import tensorflow as tf

from detection_core.augment.colour import RandomAdjustBrightness
from detection_core.augment.geometry import RandomHorizontalFlip, RandomVerticalFlip
from detection_core.augment.steps import Augmentations, OneOf, scaled, whole
from tests.detection_core.augment.golden_samples import CASES, SEED, golden_sample


def test_equal_steps_draw_different_numbers() -> None:
    sample = golden_sample(CASES["horizontal_flip"])
    step = RandomAdjustBrightness(max_delta=0.3)
    once, twice = Augmentations(steps=(step,)), Augmentations(steps=(step, step))
    first = np.asarray(once(sample, SEED).image, np.float64)
    second = np.asarray(twice(sample, SEED).image, np.float64)
    inside = (first > 0) & (first < 255) & (second > 0) & (second < 255)
    moved_once = np.median((first - sample.image)[inside])
    moved_twice = np.median((second - first)[inside])
    assert abs(moved_once - moved_twice) > 1e-2


def test_no_steps_change_nothing() -> None:
    sample = golden_sample(CASES["horizontal_flip"])
    tf.nest.map_structure(np.testing.assert_array_equal, Augmentations()(sample, SEED), sample)


def test_each_of_several_steps_is_chosen() -> None:
    sample = golden_sample(CASES["horizontal_flip_taken"])
    step = tf.function(
        OneOf(steps=(RandomHorizontalFlip(probability=1.0), RandomVerticalFlip(probability=1.0)))
    )
    images = {np.asarray(step(sample, tf.constant([i, 0], tf.int64)).image).tobytes() for i in range(12)}
    assert images == {np.asarray(sample.image)[:, ::-1].tobytes(), np.asarray(sample.image)[::-1].tobytes()}


def test_whole_numbers_reach_both_ends_evenly() -> None:
    draws = tf.linspace(0.0, 1.0, 400)[:-1]
    numbers, counts = np.unique(whole(draws, -1, 2), return_counts=True)
    assert numbers.tolist() == [-1, 0, 1, 2] and counts.min() >= 99
    assert whole(tf.constant(0.99999997), 3, 3) == 3


def test_scaled_draws_fill_the_range() -> None:
    np.testing.assert_allclose(scaled(tf.constant([0.0, 0.5, 1.0]), -2.0, 4.0), [-2.0, 1.0, 4.0])
