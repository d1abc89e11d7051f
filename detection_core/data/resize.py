"""Image resizers: scale and pad images to the network's input."""

import dataclasses
from typing import ClassVar, Literal, NamedTuple

import tensorflow as tf

from detection_core.ops.resampling import Method, pad_bottom_right, resize_masks, resize_pixels


class Resized(NamedTuple):
    """A resized image.

    Attributes:
        image: float32 [h, w, c], 0..255.
        masks: uint8 [G, h, w], resized with nearest neighbour; zero-sized where not used.
        true_size: int32 [2], rows and columns that hold the image; the rest is padding.
    """

    image: tf.Tensor
    masks: tf.Tensor
    true_size: tf.Tensor


class Resizer:
    """An image resizer. Unless it says otherwise, images keep their sizes."""

    _SAMPLING: ClassVar[dict[str, bool]] = {}
    resize_method: Method = "BILINEAR"

    @property
    def static_shape(self) -> tuple[int | None, int | None, int]:
        """(height, width, channels) of every output, None where they depend on the image."""
        return None, None, 3

    def resized_size(self, size: tf.Tensor) -> tf.Tensor:
        """Return int32 [2], the size before padding, of an image of int32 [2] `size`."""
        return size

    def __call__(self, image: tf.Tensor, masks: tf.Tensor) -> Resized:
        """Resize uint8 or float32 [H, W, 3] and masks uint8 [G, H, W]."""
        size = self.resized_size(tf.shape(image)[:2])
        resized = resize_pixels(image, size, self.resize_method, **self._SAMPLING)
        return Resized(resized, resize_masks(masks, size, **self._SAMPLING), size)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FixedShapeResizer(Resizer):
    """Stretch every image to one size, whatever its aspect ratio."""

    height: int = 300
    width: int = 300
    resize_method: Method = "BILINEAR"

    @property
    def static_shape(self) -> tuple[int | None, int | None, int]:
        """Shape of every output."""
        return self.height, self.width, 3

    def resized_size(self, size: tf.Tensor) -> tf.Tensor:
        """Return int32 [2], always the same size."""
        return tf.constant([self.height, self.width], tf.int32)


def _scaled_size(size: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.round(tf.cast(size, tf.float32) * scale), tf.int32)


@dataclasses.dataclass(frozen=True, kw_only=True)
class KeepAspectRatioResizer(Resizer):
    """Scale the shorter side to `min_dimension`, or less if the longer would exceed `max_dimension`.

    Attributes:
        min_dimension: target length of the shorter side, pixels.
        max_dimension: bound of the longer side, pixels.
        resize_method: interpolation.
        pad_to_max_dimension: pad below and to the right to a square of `max_dimension`.
        per_channel_pad_value: colour of the padding; empty: 0.
    """

    min_dimension: int = 600
    max_dimension: int = 1024
    resize_method: Method = "BILINEAR"
    pad_to_max_dimension: bool = False
    per_channel_pad_value: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for `min_dimension` above `max_dimension`."""
        if self.min_dimension > self.max_dimension:
            raise ValueError(
                f"min_dimension ({self.min_dimension}) must not be above max_dimension ({self.max_dimension})"
            )

    @property
    def static_shape(self) -> tuple[int | None, int | None, int]:
        """Shape of every output."""
        side = self.max_dimension if self.pad_to_max_dimension else None
        return side, side, 3

    def resized_size(self, size: tf.Tensor) -> tf.Tensor:
        """Return int32 [2], the size before padding, of an image of int32 [2] `size`."""
        sides = tf.cast(size, tf.float32)
        large = _scaled_size(size, self.min_dimension / tf.reduce_min(sides))
        small = _scaled_size(size, self.max_dimension / tf.reduce_max(sides))
        return tf.where(tf.reduce_max(large) > self.max_dimension, small, large)

    def __call__(self, image: tf.Tensor, masks: tf.Tensor) -> Resized:
        """Resize uint8 or float32 [H, W, 3] and masks uint8 [G, H, W]."""
        image, masks, size = super().__call__(image, masks)
        if self.pad_to_max_dimension:
            square = tf.fill([2], self.max_dimension)
            image, masks = pad_bottom_right(image, masks, square, self.per_channel_pad_value)
        return Resized(image, masks, size)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConditionalShapeResizer(Resizer):
    """Scale only images that are too large or too small, and keep the aspect ratio.

    Unlike the other resizers, it aligns the corner samples of input and output. Published detectors with this
    resizer were trained so.

    Attributes:
        condition: GREATER: reduce the longer side to the threshold; SMALLER: enlarge the shorter one to it.
        size_threshold: pixels.
        resize_method: interpolation.
    """

    _SAMPLING: ClassVar[dict[str, bool]] = {"align_corners": True}

    condition: Literal["GREATER", "SMALLER"] = "GREATER"
    size_threshold: int = 300
    resize_method: Method = "BILINEAR"

    def resized_size(self, size: tf.Tensor) -> tf.Tensor:
        """Return int32 [2], the size that an image of int32 [2] `size` gets."""
        if self.condition == "GREATER":
            side = tf.reduce_max(size)
            applies = side > self.size_threshold
        else:
            side = tf.reduce_min(size)
            applies = side < self.size_threshold
        scaled = _scaled_size(size, self.size_threshold / tf.cast(side, tf.float32))
        return tf.where(applies, scaled, size)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PadToMultipleResizer(Resizer):
    """Pad below and to the right to multiples of `multiple` pixels."""

    multiple: int = 1

    def __call__(self, image: tf.Tensor, masks: tf.Tensor) -> Resized:
        """Resize uint8 or float32 [H, W, 3] and masks uint8 [G, H, W]."""
        size = tf.shape(image)[:2]
        padded = (size + self.multiple - 1) // self.multiple * self.multiple
        return Resized(*pad_bottom_right(tf.cast(image, tf.float32), masks, padded), size)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AutomlResizer(Resizer):
    """Scale the image to fit, keep the aspect ratio, and pad below and to the right.

    As in google/automl's EfficientDet, scaled sides are truncated to whole numbers and samples lie at half
    pixels.

    Attributes:
        height: rows.
        width: columns.
        per_channel_pad_value: colour of the padding; empty: 0.
    """

    _SAMPLING: ClassVar[dict[str, bool]] = {"half_pixel_centers": True}

    height: int = 512
    width: int = 512
    per_channel_pad_value: tuple[float, ...] = ()

    @property
    def static_shape(self) -> tuple[int | None, int | None, int]:
        """Shape of every output."""
        return self.height, self.width, 3

    def resized_size(self, size: tf.Tensor) -> tf.Tensor:
        """Return int32 [2], the size before padding, of an image of int32 [2] `size`; at least one pixel."""
        sides = tf.cast(size, tf.float32)
        scale = tf.reduce_min(tf.constant([self.height, self.width], tf.float32) / sides)
        return tf.maximum(tf.cast(sides * scale, tf.int32), 1)

    def __call__(self, image: tf.Tensor, masks: tf.Tensor) -> Resized:
        """Resize uint8 or float32 [H, W, 3] and masks uint8 [G, H, W]."""
        image, masks, size = super().__call__(image, masks)
        whole = tf.constant([self.height, self.width])
        return Resized(*pad_bottom_right(image, masks, whole, self.per_channel_pad_value), size)


@dataclasses.dataclass(frozen=True, kw_only=True)
class IdentityResizer(Resizer):
    """Leave every image as it is."""

    def __call__(self, image: tf.Tensor, masks: tf.Tensor) -> Resized:
        """Return uint8 or float32 [H, W, 3] as float32, and the masks."""
        return Resized(tf.cast(image, tf.float32), masks, tf.shape(image)[:2])
