"""Geometry of single boxes: areas, centres, clipping and frames of reference.

Every function takes float32 [..., 4] boxes `[ymin, xmin, ymax, xmax]` in any unit, and keeps leading
dimensions and unit. Inverted boxes (ymax below ymin) are accepted unless stated otherwise.
"""

import tensorflow as tf


def area(boxes: tf.Tensor) -> tf.Tensor:
    """Return the areas, float32 [...]; negative if exactly one side is inverted."""
    ymin, xmin, ymax, xmax = tf.unstack(boxes, axis=-1)
    return (ymax - ymin) * (xmax - xmin)


def to_centers(boxes: tf.Tensor) -> tf.Tensor:
    """Convert corners to (ycenter, xcenter, height, width), float32 [..., 4]."""
    ymin, xmin, ymax, xmax = tf.unstack(boxes, axis=-1)
    height, width = ymax - ymin, xmax - xmin
    return tf.stack([ymin + height / 2.0, xmin + width / 2.0, height, width], axis=-1)


def from_centers(centers: tf.Tensor) -> tf.Tensor:
    """Convert (ycenter, xcenter, height, width), float32 [..., 4], to corners."""
    ycenter, xcenter, height, width = tf.unstack(centers, axis=-1)
    half_height, half_width = height / 2.0, width / 2.0
    corners = [ycenter - half_height, xcenter - half_width, ycenter + half_height, xcenter + half_width]
    return tf.stack(corners, axis=-1)


def scale(boxes: tf.Tensor, y_scale: tf.Tensor | float, x_scale: tf.Tensor | float) -> tf.Tensor:
    """Scale the coordinates, for instance from normalised to pixels; factors broadcast to [...]."""
    ymin, xmin, ymax, xmax = tf.unstack(boxes, axis=-1)
    y_factor, x_factor = tf.cast(y_scale, boxes.dtype), tf.cast(x_scale, boxes.dtype)
    return tf.stack([ymin * y_factor, xmin * x_factor, ymax * y_factor, xmax * x_factor], axis=-1)


def clip(boxes: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
    """Clip boxes to a window; a box outside collapses to zero area on its border.

    The window is float32, broadcastable to `boxes`, such as [4] or [B, 1, 4].
    """
    low = tf.concat([window[..., :2], window[..., :2]], axis=-1)
    high = tf.concat([window[..., 2:], window[..., 2:]], axis=-1)
    return tf.maximum(tf.minimum(boxes, high), low)


def change_frame(boxes: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
    """Express boxes relative to a window, whose corners become (0, 0) and (1, 1).

    The window has positive area and is broadcastable to `boxes`, in the same unit.
    """
    origin, size = window[..., :2], window[..., 2:] - window[..., :2]
    return (boxes - tf.concat([origin, origin], axis=-1)) / tf.concat([size, size], axis=-1)
