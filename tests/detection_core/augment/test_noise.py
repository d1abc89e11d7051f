import numpy as np
import tensorflow as tf

from detection_core.augment import noise
from tests.detection_core.augment.golden_samples import CASES, SEED, assert_golden, golden_sample, golden_test

test_golden = golden_test("jpeg_quality_not_taken", "patch_gaussian_not_taken")


def test_golden_patches():
    case = CASES["black_patches"]
    draws = case.params["draws"]
    corners = [[draws[f"add_black_patch[{i}{axis}]"] for axis in "yx"] for i in (0, 1)]
    taken = tf.constant([True, True])
    assert_golden(case, noise.blacken(golden_sample(case), tf.constant(corners), taken, 0.25))
    case = CASES["patch_gaussian"]
    draws = {name.split("[")[-1].rstrip("]"): tf.constant(v) for name, v in case.params["draws"].items()}
    centre = tf.stack([draws["y"], draws["x"]])
    found = noise.add_in_patch(golden_sample(case), draws["gaussian"], centre, draws["patch_size"])
    assert_golden(case, found)


def test_patches_and_noise_are_taken_by_chance_and_low_quality_damages_more():
    sample = golden_sample(CASES["black_patches"])
    np.testing.assert_array_equal(noise.RandomBlackPatches(probability=0.0)(sample, SEED).image, sample.image)
    black = noise.RandomBlackPatches(probability=1.0, size_to_image_ratio=0.5)(sample, SEED).image
    assert (np.asarray(black).max(axis=-1) == 0).mean() > 0.15
    sample = golden_sample(CASES["patch_gaussian"])
    step = noise.RandomPatchGaussian(min_patch_size=3, max_patch_size=3, min_gaussian_stddev=0.5)
    assert 4 <= (np.asarray(step(sample, SEED).image) != np.asarray(sample.image)).any(axis=-1).sum() <= 9
    sample = golden_sample(CASES["patch_gaussian"])

    def damage(quality):
        step = noise.RandomJpegQuality(min_jpeg_quality=quality, max_jpeg_quality=quality)
        return float(np.abs(step(sample, SEED).image - sample.image).mean())

    assert damage(5) > damage(60) > damage(100) > 0
