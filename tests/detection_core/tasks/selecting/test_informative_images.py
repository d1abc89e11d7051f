"""What images are worth, how far they are apart, and which are chosen."""

import math

import numpy as np
import pytest

from detection_core.tasks.selecting.informative_images import (
    Objects,
    class_weights,
    embed,
    find_distinct,
    spread,
    uncertainty,
)

GREY = np.full((64, 64), 100, np.uint8)
NOTHING = Objects([], [], [])


def hashed(*bits):
    """Hashes of 256 bits, of which the first 32 are given."""
    return [first.to_bytes(4) + bytes(28) for first in bits]


def test_a_class_with_few_labels_has_a_high_weight():
    assert class_weights(np.array([7.0, 7.0])).tolist() == [1, 1]
    assert class_weights(np.array([19.0, 1.0, 0.0])) == pytest.approx([23 / 60, 23 / 6, 23 / 3])


def test_uncertainty_is_the_weighted_sum_of_entropies():
    quarter = 2 - 0.75 * math.log2(3)
    objects = Objects([1, 0, 1], [0.5, 0.25, 0.75], [0.1] * 3)
    assert uncertainty(objects, np.array([2.0, 1.0, 5.0])) == pytest.approx([2 * quarter, 1 + quarter, 0])
    assert uncertainty(Objects([0, 0], [0.0, 1.0], [1, 1]), np.ones(1)) == pytest.approx([0], abs=1e-6)
    assert uncertainty(NOTHING, np.ones(2)).tolist() == [0, 0]


def test_the_distance_of_images_is_that_of_their_objects_and_of_their_look():
    def distance(one, other, look=GREY):
        return float(np.linalg.norm(embed(one, 2, GREY) - embed(other, 2, look)))

    small, large = Objects([0], [1.0], [0.05]), Objects([0], [1.0], [0.8])
    # Detections and labels of the same objects are the same, however sure the detector is.
    assert distance(small, Objects([0, 0], [0.3, 0.3], [0.05, 0.05])) == pytest.approx(0)
    assert distance(small, large) == pytest.approx(1)
    assert distance(small, Objects([1], [1.0], [0.05])) == pytest.approx(1)
    both = Objects([0, 0], [0.5, 0.5], [0.05, 0.8])
    assert distance(small, both) == pytest.approx(math.sqrt(1 - math.sqrt(0.5)))
    assert distance(NOTHING, NOTHING, GREY + 51) == pytest.approx(0.2)
    assert embed(small, 2, GREY).dtype == np.float32 and embed(small, 2, GREY).shape == (6 + 64,)


def test_images_that_look_like_a_better_or_a_known_one_are_left_out():
    images = hashed(0b0000, 0b0001, 0xFF00, 0xFF0000, 0xFF000000)
    known = hashed(0xFFFFFFFF, 0xFF01)
    kept, alike = find_distinct([1, 0, 2, 3, 4], images, known, 6, max_bits=1)
    assert kept == [1, 3, 4]
    assert alike == {0: 1, 2: -2}
    assert find_distinct([0, 1, 2, 3], images, [], 2, max_bits=1) == ([0, 2], {1: 0})
    assert find_distinct([0, 1, 2, 3], images, [], 2, max_bits=0) == ([0, 1], {})


NONE = np.zeros((0, 1), np.float32)


def test_each_chosen_image_is_the_farthest_from_the_known_and_the_chosen_ones():
    points, alike = np.array([[0.0], [1.0], [4.0], [10.0], [9.0]], np.float32), np.ones(5)
    chosen = spread(points, NONE, alike, 3)
    assert [index for index, _ in chosen] == [0, 3, 2]
    assert [distance for _, distance in chosen] == [math.inf, 10, 4]
    chosen = spread(points, np.array([[10.0], [5.0]], np.float32), alike, 2)
    assert [index for index, _ in chosen] == [0, 1] and chosen[0][1] == pytest.approx(5)
    # Known images are compared in parts.
    many = np.concatenate([np.full((2000, 1), 30), points[2:3]]).astype(np.float32)
    assert [index for index, _ in spread(points, many, alike, 99)] == [3, 0, 1, 4, 2]


def test_an_image_counts_as_much_as_the_detector_is_uncertain_of_it():
    points = np.array([[0.0], [5.0], [9.0]], np.float32)
    # The most uncertain one is first; then 2 * 5 is more than 1 * 9.
    assert [index for index, _ in spread(points, NONE, np.array([3.0, 2.0, 1.0]), 2)] == [0, 1]
    assert [index for index, _ in spread(points, NONE, np.array([1.0, 0.0, 0.0]), 2)] == [0, 2]
    assert [index for index, _ in spread(points, points[2:], np.array([0.0, 1.0, 50.0]), 3)] == [1, 0, 2]


def test_the_choice_is_that_of_a_slow_loop():
    rng = np.random.default_rng(0)
    points, known = (rng.normal(size=(n, 3)).astype(np.float32) for n in (40, 5))
    bits = rng.uniform(1, 3, 40)
    centers, expected = list(known), []
    for _ in range(7):
        gaps = [min(np.linalg.norm(point - center) for center in centers) for point in points]
        expected.append(int(np.argmax(gaps * (bits + 0.001))))
        centers.append(points[expected[-1]])
    assert [index for index, _ in spread(points, known, bits, 7)] == expected
