"""Image resizers."""

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from detection_core.builders.image_resizer import build_image_resizer
from detection_core.data.resize import (
    AutomlResizer,
    ConditionalShapeResizer,
    FixedShapeResizer,
    IdentityResizer,
    KeepAspectRatioResizer,
    PadToMultipleResizer,
)
from detection_core.errors import ConfigError
from detection_core.protos import image_resizer_pb2
from tests.support.cases import cases
from tests.support.golden_cases import load_cases

CASES = load_cases(__file__, "image_resizers")
AUTOML = load_cases(__file__, "automl_input")
GRAY = [name for name, case in CASES.items() if "convert_to_grayscale" in case.config]
RESIZED = [name for name, case in CASES.items() if "image" in case.outputs and name not in GRAY]


@cases(*RESIZED)
def test_golden(*, name):
    case = CASES[name]
    resizer = build_image_resizer(text_format.Parse(case.config, image_resizer_pb2.ImageResizer()))
    masks = tf.constant(case.inputs["masks"].astype(np.uint8))
    found = resizer(tf.constant(case.inputs["image"]), masks)
    np.testing.assert_allclose(found.image, case.outputs["image"], rtol=1e-4, atol=1e-2)
    np.testing.assert_array_equal(found.masks, case.outputs["masks"])
    assert found.true_size.numpy().tolist() == case.outputs["true_shape"][:2].tolist()
    for static, actual in zip(resizer.static_shape, found.image.shape, strict=True):
        assert static in (None, actual)


@cases(*GRAY)
def test_one_channel_is_refused_as_no_extractor_takes_it(*, name):
    with pytest.raises(ConfigError, match="takes three channels"):
        build_image_resizer(text_format.Parse(CASES[name].config, image_resizer_pb2.ImageResizer()))


def test_golden_sizes_of_kept_aspect_ratios():
    for height, width, low, high, pads, out_h, out_w, true_h, true_w in (
        CASES["keep_aspect_ratio_shape_table"].outputs["rows"].tolist()
    ):
        resizer = KeepAspectRatioResizer(
            min_dimension=low, max_dimension=high, pad_to_max_dimension=bool(pads)
        )
        found = resizer(tf.zeros([height, width, 3]), tf.zeros([0, 0, 0], tf.uint8))
        assert found.image.shape[:2] == (out_h, out_w)
        assert found.true_size.numpy().tolist() == [true_h, true_w]
    with pytest.raises(ValueError, match=r"min_dimension \(12\)"):
        KeepAspectRatioResizer(min_dimension=12, max_dimension=6)
    with pytest.raises(ValueError, match="3 values or none, found 2"):
        KeepAspectRatioResizer(per_channel_pad_value=(1.0, 2.0))
    with pytest.raises(ValueError, match="above 0, found -4"):
        PadToMultipleResizer(multiple=-4)


def test_bytes_and_floats_give_the_same():
    image = np.random.default_rng(0).integers(0, 256, (9, 14, 3), dtype=np.uint8)
    for name in [name for name in RESIZED if name.endswith("landscape")]:
        resizer = build_image_resizer(text_format.Parse(CASES[name].config, image_resizer_pb2.ImageResizer()))
        images = (tf.constant(image), tf.constant(image, tf.float32))
        found = [resizer(given, tf.zeros([0, 0, 0], tf.uint8)).image for given in images]
        np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    "resizer",
    [
        FixedShapeResizer(height=30, width=20),
        KeepAspectRatioResizer(min_dimension=20, max_dimension=40, pad_to_max_dimension=True),
        ConditionalShapeResizer(condition="GREATER", size_threshold=25),
        ConditionalShapeResizer(condition="SMALLER", size_threshold=50),
        PadToMultipleResizer(multiple=16),
        IdentityResizer(),
    ],
)
@pytest.mark.parametrize("size", [(33, 70), (70, 33), (10, 10)])
def test_the_size_of_an_image_is_known_without_it(resizer, size):
    found = resizer(tf.zeros([*size, 3]), tf.zeros([0, 0, 0], tf.uint8))
    assert resizer.resized_size(tf.constant(size)).numpy().tolist() == found.true_size.numpy().tolist()


def _automl(size, mean):
    return AutomlResizer(height=size[0], width=size[1], per_channel_pad_value=tuple(mean))


def _channels(value):
    return value if isinstance(value, list) else [value] * 3


@cases(*[name for name in AUTOML if name.startswith("eval")])
def test_golden_of_automl(*, name):
    case = AUTOML[name]
    size, mean = case.params["output_size_hw"], _channels(case.params["mean_rgb"])
    resizer = _automl([size, size] if isinstance(size, int) else size, mean)
    image = tf.constant(case.inputs["image"])
    found = resizer(image, tf.ones([2, *image.shape[:2]], tf.uint8))
    assert found.true_size.numpy().tolist() == case.outputs["scaled_hw"].tolist()
    assert found.image.shape == resizer.static_shape and found.masks.shape[1:] == found.image.shape[:2]
    assert int(tf.reduce_sum(tf.cast(found.masks, tf.int32))) == 2 * int(tf.reduce_prod(found.true_size))
    normalised = (found.image - mean) / case.params["stddev_rgb"]
    np.testing.assert_allclose(normalised, case.outputs["image"], rtol=1e-4, atol=1e-3)


@cases(("model_preprocess_d0", [32, 32]), ("model_preprocess_lite", [24, 40]))
def test_golden_of_automl_in_serving(*, name, size):
    case = AUTOML[name]
    mean = _channels(case.params["mean_rgb"])
    for image, expected in zip(case.inputs["images"], case.outputs["images"], strict=True):
        found = _automl(size, mean)(tf.constant(image), tf.zeros([0, 0, 0], tf.uint8))
        normalised = (found.image - mean) / case.params["stddev_rgb"]
        np.testing.assert_allclose(normalised, expected, rtol=1e-4, atol=1e-3)
