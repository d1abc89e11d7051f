import itertools

import numpy as np
import tensorflow as tf
from google.protobuf import text_format

from detection_core.builders.image_resizer import build_image_resizer
from detection_core.data import resize
from detection_core.data.resize import ConditionalShapeResizer, KeepAspectRatioResizer, PadToMultipleResizer
from detection_core.errors import ConfigError
from detection_core.protos import image_resizer_pb2
from tests.support.cases import cases, refused
from tests.support.golden_cases import load_cases

CASES = load_cases(__file__, "image_resizers")
AUTOML = load_cases(__file__, "automl_input")
GRAY = [name for name, case in CASES.items() if "convert_to_grayscale" in case.config]
RESIZED = [name for name, case in CASES.items() if "image" in case.outputs and name not in GRAY]


NO_MASKS = tf.zeros([0, 0, 0], tf.uint8)


def _build(name):
    return build_image_resizer(text_format.Parse(CASES[name].config, image_resizer_pb2.ImageResizer()))


@cases(*RESIZED)
def test_golden(*, name):
    case, resizer = CASES[name], _build(name)
    masks = tf.constant(case.inputs["masks"].astype(np.uint8))
    found = resizer(tf.constant(case.inputs["image"]), masks)
    np.testing.assert_allclose(found.image, case.outputs["image"], rtol=1e-4, atol=1e-2)
    np.testing.assert_array_equal(found.masks, case.outputs["masks"])
    assert found.true_size.numpy().tolist() == case.outputs["true_shape"][:2].tolist()
    for static, actual in zip(resizer.static_shape, found.image.shape, strict=True):
        assert static in (None, actual)
    if name.endswith("landscape"):
        image = np.random.default_rng(0).integers(0, 256, (9, 14, 3), dtype=np.uint8)
        of_bytes, of_floats = (resizer(tf.constant(image, dtype), NO_MASKS) for dtype in (None, tf.float32))
        np.testing.assert_array_equal(of_bytes.image, of_floats.image)


def test_golden_sizes_of_kept_aspect_ratios():
    rows = CASES["keep_aspect_ratio_shape_table"].outputs["rows"].tolist()
    for height, width, low, high, pads, out_h, out_w, true_h, true_w in rows:
        bounds = {"min_dimension": low, "max_dimension": high, "pad_to_max_dimension": bool(pads)}
        found = KeepAspectRatioResizer(**bounds)(tf.zeros([height, width, 3]), NO_MASKS)
        assert found.image.shape[:2] == (out_h, out_w)
        assert found.true_size.numpy().tolist() == [true_h, true_w]


def test_what_cannot_be_is_refused():
    for name in GRAY:  # no extractor takes one channel
        refused(ConfigError, "takes three channels", _build, name)
    for kind, options, message in (
        (KeepAspectRatioResizer, {"min_dimension": 12, "max_dimension": 6}, r"min_dimension \(12\)"),
        (KeepAspectRatioResizer, {"per_channel_pad_value": (1.0, 2.0)}, "3 values or none, found 2"),
        (PadToMultipleResizer, {"multiple": -4}, "above 0, found -4"),
    ):
        refused(ValueError, message, lambda kind=kind, options=options: kind(**options))


RESIZERS = (
    resize.FixedShapeResizer(height=30, width=20), PadToMultipleResizer(multiple=16),
    KeepAspectRatioResizer(min_dimension=20, max_dimension=40, pad_to_max_dimension=True),
    ConditionalShapeResizer(condition="GREATER", size_threshold=25), resize.IdentityResizer(),
    ConditionalShapeResizer(condition="SMALLER", size_threshold=50),
)  # fmt: skip


@cases(*itertools.product(RESIZERS, [(33, 70), (70, 33), (10, 10)]))
def test_the_size_of_an_image_is_known_without_it(*, resizer, size):
    found = resizer(tf.zeros([*size, 3]), NO_MASKS)
    assert resizer.resized_size(tf.constant(size)).numpy().tolist() == found.true_size.numpy().tolist()


def _automl(size, mean):
    return resize.AutomlResizer(height=size[0], width=size[1], per_channel_pad_value=tuple(mean))


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
        found = _automl(size, mean)(tf.constant(image), NO_MASKS)
        normalised = (found.image - mean) / case.params["stddev_rgb"]
        np.testing.assert_allclose(normalised, expected, rtol=1e-4, atol=1e-3)
