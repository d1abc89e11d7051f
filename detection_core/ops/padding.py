"""Padding of images and masks below and to the right."""

from __future__ import annotations

import tensorflow as tf


def pad_bottom_right(image: tf.Tensor, size: tf.Tensor, value: tuple[float, ...] = ()) -> tf.Tensor:
    """Pad float32 [H, W, c] below and to the right up to `size`, with zero or a value a channel."""
    room = size - tf.shape(image)[:2]
    paddings = [[0, room[0]], [0, room[1]], [0, 0]]
    if not value:
        return tf.pad(image, paddings)
    colour = tf.constant(value, tf.float32)
    return tf.pad(image - colour, paddings) + colour


def pad_masks_bottom_right(masks: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Pad [G, H, W] below and to the right with zero; zero-sized masks stay as they are."""
    if masks.shape[1:] == [0, 0]:
        return masks
    room = size - tf.shape(masks)[1:]
    return tf.pad(masks, [[0, 0], [0, room[0]], [0, room[1]]])
