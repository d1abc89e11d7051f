from collections import Counter

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.data.repeat_factors import find_repeat_factors

ONE = 1 << 12
IMAGES = st.lists(st.lists(st.integers(-1, 5), max_size=4), min_size=1, max_size=40)


def _arrays(images):
    return [np.array(classes, np.int64) for classes in images]


def _epoch(images, threshold, seed):
    factors = find_repeat_factors(_arrays(images), threshold)
    pairs = [(i, int(factors.of_image(tf.constant(c, tf.int64)))) for i, c in enumerate(images)]
    numbers, of_images = (tf.constant(column, tf.int64) for column in zip(*pairs, strict=True))
    elements = tf.data.Dataset.from_tensor_slices((numbers, of_images))
    found = factors.repeated(elements, tf.constant([seed, -1], tf.int64))
    return [int(i) for i in found.as_numpy_iterator()]


def test_factors_are_those_of_the_paper():
    # Class 0 is in 8 of 8 images, class 1 in 2, class 2 in 1, class 3 in none.
    images = [[0], [0], [0, 0], [0], [0], [0, 1], [0, 1, 1], [0, 2, 4]]
    factors = find_repeat_factors(_arrays(images), 0.5)
    expected = [1.0, np.sqrt(0.5 / 0.25), np.sqrt(0.5 / 0.125), 1.0, np.sqrt(0.5 / 0.125)]
    np.testing.assert_allclose(np.array(factors.of_class) / ONE, expected, rtol=1e-3)
    assert factors.examples == 10  # 5 + 2 sqrt(2) + 2, rounded up
    of_images = ([0], [0, 1], [2, 1], [-1])
    found = [int(factors.of_image(tf.constant(classes, tf.int64))) / ONE for classes in of_images]
    np.testing.assert_allclose(found, [1.0, np.sqrt(2), 2.0, 1.0], rtol=1e-3)
    assert _epoch([[], [], []], 0.5, 1) == [0, 1, 2]


@settings(max_examples=15, deadline=None)
@given(IMAGES, st.floats(0.01, 1.0), st.integers(0, 2**31))
def test_an_epoch_is_always_as_long_and_each_image_is_rounded(images, threshold, seed):
    factors = find_repeat_factors(_arrays(images), threshold)
    found = _epoch(images, threshold, seed)
    assert len(found) == factors.examples >= len(images)
    counts = Counter(found)
    for i, classes in enumerate(images):
        # Rounding the epoch up to a whole image makes each factor a little larger.
        factor = int(factors.of_image(tf.constant(classes, tf.int64))) * factors.examples / factors.total
        assert np.floor(factor) <= counts[i] <= np.ceil(factor)


def test_each_image_comes_as_often_as_its_factor():
    images = [[0], [1], [0], [2], [0], [0], [0], [2], [0], [0]] * 50
    factors = find_repeat_factors(_arrays(images), 0.6)
    counts = sum((Counter(_epoch(images, 0.6, seed)) for seed in range(4)), Counter())
    for kind in range(3):
        found = [counts[i] / 4 for i, classes in enumerate(images) if classes == [kind]]
        assert np.mean(found) == pytest.approx(factors.of_class[kind] / ONE, abs=0.1)
