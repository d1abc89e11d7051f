"""Flips, quarter turns, and the image beside itself."""

import numpy as np
import pytest

from detection_core.augment.geometry import HORIZONTAL, VERTICAL, flip, repeat_image, rotate90
from tests.detection_core.augment.golden_samples import CASES, SEED, assert_golden, golden_sample, golden_step
from tests.support.cases import cases


@cases("horizontal_flip", "vertical_flip", "rotation90")
def test_golden(*, name):
    assert_golden(CASES[name], golden_step(CASES[name])(golden_sample(CASES[name]), SEED))


@cases(("self_concat_10", [0]), ("self_concat_01", [1]), ("self_concat_11", [0, 1]))
def test_golden_repeat(*, name, axes):
    sample = golden_sample(CASES[name])
    for axis in axes:
        sample = repeat_image(sample, axis)
    assert_golden(CASES[name], sample)


def test_what_is_repeated_lies_where_its_boxes_are():
    sample = golden_sample(CASES["horizontal_flip"])
    found = repeat_image(sample, 1).truth
    masks, keypoints, before = map(np.asarray, (found.masks, found.keypoints, sample.truth.keypoints))
    assert masks.shape == (6, 8, 24)
    assert masks[:3, :, 12:].sum() == 0 and masks[3:, :, :12].sum() == 0
    np.testing.assert_array_equal(masks[:3, :, :12], masks[3:, :, 12:])
    np.testing.assert_allclose(keypoints[:3], before * [1.0, 0.5], atol=1e-6)
    np.testing.assert_allclose(keypoints[3:], before * [1.0, 0.5] + [0.0, 0.5], atol=1e-6)


FLIPS_AND_TURNS = [
    (lambda sample, order: flip(sample, HORIZONTAL, order), 2),
    (lambda sample, order: flip(sample, VERTICAL, order), 2),
    (rotate90, 4),
]


@cases(*FLIPS_AND_TURNS)
def test_repeating_a_flip_or_turn_gives_the_image_back(*, change, times):
    sample = found = golden_sample(CASES["horizontal_flip"])
    for _ in range(times):
        found = change(found, (1, 0, 2, 3))
    np.testing.assert_array_equal(found.image, sample.image)
    np.testing.assert_allclose(found.truth.keypoints, sample.truth.keypoints, atol=1e-6)
    np.testing.assert_array_equal(found.truth.keypoint_weights, sample.truth.keypoint_weights)
    np.testing.assert_array_equal(found.truth.masks, sample.truth.masks)
    np.testing.assert_allclose(found.truth.boxes, sample.truth.boxes, atol=1e-6)


def test_a_flip_needs_a_chance_and_to_know_what_keypoints_become():
    case = CASES["horizontal_flip"]
    sample = golden_sample(case)
    step = type(golden_step(case))(probability=0.0)
    np.testing.assert_array_equal(step(sample, SEED).image, sample.image)
    case = CASES["horizontal_flip_no_permutation"]
    with pytest.raises(ValueError, match="expected a keypoint_flip_permutation"):
        golden_step(case)(golden_sample(CASES["horizontal_flip"]), SEED)
