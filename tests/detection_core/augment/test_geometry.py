import numpy as np
import pytest

from detection_core.augment.geometry import HORIZONTAL, VERTICAL, flip, repeat_image, rotate90
from tests.detection_core.augment import golden_samples
from tests.detection_core.augment.golden_samples import CASES, SEED, golden_sample, golden_step
from tests.support.cases import cases

test_golden = golden_samples.golden_test("horizontal_flip", "vertical_flip", "rotation90")


def test_what_is_repeated_lies_where_its_boxes_are():
    for name, axes in (("self_concat_10", [0]), ("self_concat_01", [1]), ("self_concat_11", [0, 1])):
        sample = golden_sample(CASES[name])
        for axis in axes:
            sample = repeat_image(sample, axis)
        golden_samples.assert_golden(CASES[name], sample)
    sample = golden_sample(CASES["horizontal_flip"])
    found = repeat_image(sample, 1).truth
    masks, keypoints, before = map(np.asarray, (found.masks, found.keypoints, sample.truth.keypoints))
    assert masks.shape == (6, 8, 24)
    assert masks[:3, :, 12:].sum() == 0 and masks[3:, :, :12].sum() == 0
    np.testing.assert_array_equal(masks[:3, :, :12], masks[3:, :, 12:])
    np.testing.assert_allclose(keypoints[:3], before * [1.0, 0.5], atol=1e-6)
    np.testing.assert_allclose(keypoints[3:], before * [1.0, 0.5] + [0.0, 0.5], atol=1e-6)


@cases((flip, [HORIZONTAL], 2), (flip, [VERTICAL], 2), (rotate90, [], 4))
def test_repeating_a_flip_or_turn_gives_the_image_back(*, change, axis, times):
    sample = found = golden_sample(CASES["horizontal_flip"])
    for _ in range(times):
        found = change(found, *axis, (1, 0, 2, 3))
    np.testing.assert_array_equal(found.image, sample.image)
    for field in ("keypoints", "keypoint_weights", "masks", "boxes"):
        values, expected = getattr(found.truth, field), getattr(sample.truth, field)
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-6, err_msg=field)


def test_a_flip_needs_a_chance_and_to_know_what_keypoints_become():
    sample = golden_sample(CASES["horizontal_flip"])
    step = type(golden_step(CASES["horizontal_flip"]))(probability=0.0)
    np.testing.assert_array_equal(step(sample, SEED).image, sample.image)
    with pytest.raises(ValueError, match="expected a keypoint_flip_permutation"):
        golden_step(CASES["horizontal_flip_no_permutation"])(sample, SEED)
