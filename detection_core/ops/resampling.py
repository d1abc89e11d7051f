"""Resize and pad images, masks and keypoints."""

from collections.abc import Callable
from typing import Literal

import tensorflow as tf

from detection_core.structures import COLOURS

Method = Literal["BILINEAR", "NEAREST_NEIGHBOR", "BICUBIC", "AREA"]

_INTERPOLATIONS: dict[str, Callable[..., tf.Tensor]] = {
    "BILINEAR": tf.raw_ops.ResizeBilinear,
    "NEAREST_NEIGHBOR": tf.raw_ops.ResizeNearestNeighbor,
    "BICUBIC": tf.raw_ops.ResizeBicubic,
    "AREA": tf.raw_ops.ResizeArea,
}


def resize_pixels(
    image: tf.Tensor,
    size: tf.Tensor,
    method: Method = "BILINEAR",
    *,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> tf.Tensor:
    """Resize [H, W, c], uint8 or float32, to float32 [h, w, c]; size is int32 [2]."""
    channels = image.shape[-1]
    shift = {"half_pixel_centers": True} if half_pixel_centers else {}  # AREA has no such argument
    resized = _INTERPOLATIONS[method](
        images=image[tf.newaxis], size=size, align_corners=align_corners, **shift
    )[0]
    resized.set_shape([None, None, channels])
    return tf.cast(resized, tf.float32)


def resize_masks(
    masks: tf.Tensor, size: tf.Tensor, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> tf.Tensor:
    """Resize [G, H, W] with nearest neighbour; zero-sized masks are unchanged."""
    if masks.shape[1:] == [0, 0]:
        return masks

    def resize() -> tf.Tensor:
        return tf.raw_ops.ResizeNearestNeighbor(
            images=masks[..., tf.newaxis],
            size=size,
            align_corners=align_corners,
            half_pixel_centers=half_pixel_centers,
        )[..., 0]

    empty = tf.concat([tf.shape(masks)[:1], size], 0)
    resized = tf.cond(tf.size(masks) > 0, resize, lambda: tf.zeros(empty, masks.dtype))
    resized.set_shape([None, None, None])
    return resized


def pad_bottom_right(
    image: tf.Tensor, masks: tf.Tensor, size: tf.Tensor, value: tuple[float, ...] = ()
) -> tuple[tf.Tensor, tf.Tensor]:
    """Pad an image, float32 [H, W, c], and its masks [G, H, W] below and to the right to `size`.

    Masks get zero, the image zero or one value per colour; zero-sized masks are unchanged.
    """
    room = size - tf.shape(image)[:2]
    rows, columns = [0, room[0]], [0, room[1]]
    if masks.shape[1:] != [0, 0]:
        masks = tf.pad(masks, [[0, 0], rows, columns])
    if not value:
        return tf.pad(image, [rows, columns, [0, 0]]), masks
    colour = canvas_colour(value, image)
    return tf.pad(image - colour, [rows, columns, [0, 0]]) + colour, masks


def canvas_colour(value: tuple[float, ...], image: tf.Tensor) -> tf.Tensor:
    """Return a colour for an image, float32 [c]: () is black, one number for all; further channels get 0."""
    further = image.shape[-1] - COLOURS if len(value) == COLOURS else 0
    return tf.constant([*(value or (0.0,)), *[0.0] * further], tf.float32)


def colour_shape(image: tf.Tensor) -> tf.Tensor:
    """Return the shape of an image's colours, without further channels, int32 [3]."""
    return tf.minimum(tf.shape(image), [2**31 - 1, 2**31 - 1, COLOURS])


def change_colours(image: tf.Tensor, change: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
    """Apply a change to the colours of an image, [H, W, c]; further channels stay as they are."""
    if image.shape[-1] is None or image.shape[-1] <= COLOURS:
        return change(image)
    changed = change(image[..., :COLOURS])
    return tf.concat([changed, tf.cast(image[..., COLOURS:], changed.dtype)], axis=-1)
