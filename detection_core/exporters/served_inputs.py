"""Input types of a SavedModel, as in the Object Detection API's exporter."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import tensorflow as tf

from detection_core.data.decode import decode_pixels
from detection_core.data.resize import Resizer
from detection_core.errors import ExportError
from detection_core.structures import Images

SAVED_MODEL_INPUT = "input_tensor"
IMAGE_TENSOR = "image_tensor"
IMAGE_KEY = "image/encoded"
_CHANNELS = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServedInput:
    """An input type.

    Attributes:
        dtype: of the input.
        shape: of one element of the batch.
        pixels: one element -> image [H, W, 3], uint8 or float32 0..255, RGB.
        of_example: a serialised `tf.Example` -> the element of the batch.
    """

    dtype: tf.DType
    shape: tuple[int | None, ...]
    pixels: Callable[[tf.Tensor], tf.Tensor]
    of_example: Callable[[tf.Tensor], tf.Tensor]

    def spec(self, batch: int | None, name: str = SAVED_MODEL_INPUT) -> tf.TensorSpec:
        """Return the signature's input; a batch of None means any size."""
        return tf.TensorSpec([batch, *self.shape], self.dtype, name=name)


def _itself(element: tf.Tensor) -> tf.Tensor:
    return element


def _decode(encoded: tf.Tensor) -> tf.Tensor:
    return decode_pixels(encoded, channels=_CHANNELS)


def _encoded(serialized: tf.Tensor) -> tf.Tensor:
    fields = tf.io.parse_single_example(serialized, {IMAGE_KEY: tf.io.FixedLenFeature([], tf.string)})
    return fields[IMAGE_KEY]


def _decode_example(serialized: tf.Tensor) -> tf.Tensor:
    return _decode(_encoded(serialized))


_IMAGE = (None, None, _CHANNELS)
INPUT_TYPES: Mapping[str, ServedInput] = {
    IMAGE_TENSOR: ServedInput(dtype=tf.uint8, shape=_IMAGE, pixels=_itself, of_example=_decode_example),
    "float_image_tensor": ServedInput(
        dtype=tf.float32,
        shape=_IMAGE,
        pixels=_itself,
        of_example=lambda example: tf.cast(_decode_example(example), tf.float32),
    ),
    "encoded_image_string_tensor": ServedInput(
        dtype=tf.string, shape=(), pixels=_decode, of_example=_encoded
    ),
    "tf_example": ServedInput(dtype=tf.string, shape=(), pixels=_decode_example, of_example=_itself),
}
"""Name, as in `exporter_main_v2.py --input_type`, to the input type."""


def find_input_type(name: str) -> ServedInput:
    """Return an input type.

    Raises:
        ExportError: for an unknown name.
    """
    if name not in INPUT_TYPES:
        reason = (
            "; boxes as input are for detectors that predict masks for given boxes, which none here does"
            if name == "image_and_boxes_tensor"
            else "; choose one"
        )
        raise ExportError(f"expected {', '.join(INPUT_TYPES)}, found {name!r}{reason}", where="input_type")
    return INPUT_TYPES[name]


def largest_batch(served: ServedInput, resizer: Resizer) -> int | None:
    """Return the batch size: None for any, or 1 if images of a batch may not fit into one tensor.

    Encoded images vary in size, and some resizers keep part of it.
    """
    return 1 if served.dtype == tf.string and None in resizer.static_shape else None


def served_images(batch: tf.Tensor, served: ServedInput, resizer: Resizer) -> Images:
    """Decode and resize a batch.

    Args:
        batch: as `served.spec` says.
        served: its input type.
        resizer: turns an image into the network's input, as in training.
    """

    def prepare(element: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        image = served.pixels(element)
        resized = resizer(image, tf.zeros([0, 0, 0], tf.uint8))
        return resized.image, resized.true_size, tf.shape(image)[:2]

    size = tf.TensorSpec([2], tf.int32)
    specs = tf.TensorSpec(resizer.static_shape, tf.float32), size, size
    # A batch of one, the usual request, needs no loop.
    if batch.shape[0] == 1:
        parts = [part[tf.newaxis] for part in prepare(batch[0])]
    else:
        parts = tf.map_fn(prepare, batch, fn_output_signature=specs)
    pixels, true_sizes, original_sizes = parts
    names = tf.fill([tf.shape(batch)[0]], "")
    return Images(pixels=pixels, true_sizes=true_sizes, original_sizes=original_sizes, source_ids=names)
