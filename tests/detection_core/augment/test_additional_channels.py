"""Channels beyond the colours: geometry moves them with the image, colour operations leave them."""

import numpy as np
import tensorflow as tf
from google.protobuf import text_format

from detection_core.augment.mixing import Mixing
from detection_core.builders.augment import PREPROCESSING_STEPS, build_augmentation
from detection_core.ops.objects import new_truth
from detection_core.protos import preprocessor_pb2
from detection_core.structures import COLOURS, Sample

COLOUR = {
    "random_pixel_value_scale", "random_rgb_to_gray", "random_adjust_brightness", "random_adjust_contrast",
    "random_adjust_hue", "random_adjust_saturation", "random_distort_color", "random_jpeg_quality",
    "random_patch_gaussian", "adjust_gamma",
}  # fmt: skip
"""Steps that change colours only."""
MIXED = {"autoaugment_image"}
"""Steps with operations of both kinds."""
OF_EACH_CHANNEL = {"normalize_image", "subtract_channel_mean"}
"""Steps with numbers that the user gives for all channels, or for each."""
NOT_FOR_TRAINING = {"rgb_to_gray", "registered", "convert_class_logits_to_softmax"}
_SIZED = ("automl_scale_jitter", "large_scale_jitter", "mosaic")
TEXT = {
    "random_rgb_to_gray": "probability: 1",
    "random_jpeg_quality": "max_jpeg_quality: 20",
    "adjust_gamma": "gamma: 2",
    "random_pad_image": "pad_color: [9, 8, 7]",
    "random_absolute_pad_image": "max_height_padding: 5 pad_color: [9, 8, 7]",
    "random_vertical_flip": "probability: 1",
    "random_horizontal_flip": "probability: 1",
    "random_rotation90": "probability: 1",
    "resize_image": "new_height: 9 new_width: 11",
    "autoaugment_image": 'policy_name: "v0"',
    **dict.fromkeys(_SIZED, "height: 24 width: 32"),
}


def sample(channels, seed=0):
    """A smooth image whose channels are those that are named."""
    colours = np.random.default_rng(seed).integers(0, 256, (5, 6, 5))
    image = (
        tf.image.resize(tf.constant(colours, tf.float32), [24, 32]).numpy().astype(np.uint8)[..., channels]
    )
    boxes = tf.constant([[0.1, 0.1, 0.6, 0.5], [0.3, 0.4, 0.9, 0.9]])
    truth = new_truth(
        boxes, tf.constant([0, 1]), is_crowd=tf.constant([False, False]), masks=tf.zeros([2, 0, 0], tf.uint8)
    )
    return Sample(tf.constant(image), truth, tf.constant("1"))


def changed(name, channels, seed):
    text = f"{name} {{ {TEXT.get(name, '')} }}"
    step = build_augmentation(text_format.Parse(text, preprocessor_pb2.PreprocessingStep()))
    given = sample(channels)
    if isinstance(step, Mixing):
        return step(given, lambda number: sample(channels, seed=int(number) + 1), seed).image.numpy()
    return step(given, seed).image.numpy()


def test_colours_stay_the_same_and_further_channels_go_with_the_geometry():
    every = {*COLOUR, *MIXED, *OF_EACH_CHANNEL, *NOT_FOR_TRAINING}
    assert every <= set(PREPROCESSING_STEPS)
    whole = sample([0, 1, 2, 3, 4]).image.numpy()
    moved = 0
    for name in sorted(set(PREPROCESSING_STEPS) - OF_EACH_CHANNEL - NOT_FOR_TRAINING):
        for number in range(3):
            seed = tf.constant([number, 7], tf.int64)
            five, colours = changed(name, [0, 1, 2, 3, 4], seed), changed(name, [0, 1, 2], seed)
            assert five.shape[-1] == 5, name
            np.testing.assert_allclose(five[..., :COLOURS], colours, atol=1e-3, err_msg=name)
            if name in COLOUR:
                np.testing.assert_array_equal(five[..., COLOURS:], whole[..., COLOURS:], err_msg=name)
                moved += int((five[..., :COLOURS] != whole[..., :COLOURS]).any())
            elif name not in MIXED and "pad" not in TEXT.get(name, ""):
                others = changed(name, [3, 4, 0], seed)
                np.testing.assert_allclose(five[..., COLOURS:], others[..., :2], atol=1e-3, err_msg=name)
    assert moved >= 2 * len(COLOUR)
