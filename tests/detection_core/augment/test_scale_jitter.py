import numpy as np
import tensorflow as tf

from detection_core.augment.scale_jitter import ScaleJitter
from detection_core.ops.objects import new_truth
from detection_core.structures import Sample
from tests.detection_core.augment.mixing_samples import bounds, shining
from tests.support.cases import cases
from tests.support.golden_cases import load_cases

CASES = load_cases(__file__, "automl_input")
TRAINED = [name for name in CASES if name.startswith("train_")]
SEED = tf.constant([3, 4], tf.int64)


def _jitter(case):
    (height, width), target = case.params["output_size_hw"], case.params["target_size"] or 0
    low, high = case.params["jitter"]
    sizes = {"height": height, "width": width, "target_height": target, "target_width": target}
    padding = tuple(case.params["mean_rgb"])
    return ScaleJitter(**sizes, scale_min=low, scale_max=high, per_channel_pad_value=padding)


def _sample(case):
    truth = new_truth(case.inputs["boxes"], tf.cast(case.inputs["classes"][:, 0], tf.int32))
    return Sample(tf.constant(case.inputs["image"]), truth, tf.constant(""))


@cases(*TRAINED)
def test_golden(*, name):
    case, jitter = CASES[name], _jitter(CASES[name])
    placement = jitter.placement(tf.shape(case.inputs["image"])[:2], tf.constant(case.params["draws"]))
    assert placement.scaled.numpy().tolist() == case.outputs["scaled_hw"].tolist()
    assert placement.offset.numpy().tolist() == case.outputs["offset_yx"].tolist()
    found = jitter.placed(_sample(case), placement)
    normalised = (found.image - case.params["mean_rgb"]) / case.params["stddev_rgb"]
    np.testing.assert_allclose(normalised, case.outputs["image"], rtol=1e-4, atol=1e-3)
    pixels = found.truth.boxes * tf.constant(case.params["output_size_hw"] * 2, tf.float32)
    np.testing.assert_allclose(pixels, case.outputs["boxes"], rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(found.truth.classes, case.outputs["classes"][:, 0])


def test_masks_and_keypoints_follow_the_pixels():
    jitter = ScaleJitter(height=32, width=32, scale_min=1.5, scale_max=2.0)
    sample = shining((20, 40), (4, 10, 5, 7), masks=True)
    for i in range(8):
        found = jitter(sample, tf.constant([i, 7], tf.int64))
        if not len(found.truth.boxes):
            continue
        corners = found.truth.boxes.numpy()[0] * 32
        for shown in (found.image.numpy()[..., 0] > 127, found.truth.masks.numpy()[0]):
            np.testing.assert_allclose(bounds(shown), corners, atol=1.5)
        centre = found.truth.keypoints.numpy()[0, 0] * 32
        if np.isfinite(centre).all() and corners[2:].max() < 31:
            np.testing.assert_allclose(centre, (corners[:2] + corners[2:]) / 2, atol=1.0)


def test_scales_spread_over_the_range_and_keep_a_pixel():
    case = CASES["train_tiny"]
    step = tf.function(_jitter(case))
    images = {step(_sample(case), tf.constant([i, 0], tf.int64)).image.numpy().tobytes() for i in range(9)}
    assert len(images) == 9
    jitter = ScaleJitter(height=8, width=8, scale_min=0.01, scale_max=0.02)
    assert jitter(_sample(CASES["train_tiny"]), SEED).image.shape == (8, 8, 3)
