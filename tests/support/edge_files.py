"""Small TensorFlow Lite files with a part that XNNPACK runs, and one that it does not."""

from __future__ import annotations

import functools

import tensorflow as tf


@functools.cache
def convolutions(*, between: str = "", integer: bool = False, side: int = 16) -> bytes:
    """Two convolutions, and what may lie between them.

    Args:
        between: "" for nothing; `reverse`, which XNNPACK does not have; `concat5` or `concat6`, branches that
            are concatenated, of which it takes five.
        integer: quantize after training.
        side: rows and columns of the input.
    """
    first = tf.random.stateless_uniform([3, 3, 3, 8], [1, 2], -0.5, 0.5)
    branches = int(between.removeprefix("concat")) if between.startswith("concat") else 1
    second = tf.random.stateless_uniform([3, 3, 8 * branches, 4], [3, 4], -0.5, 0.5)

    def serve(image):
        x = tf.nn.relu6(tf.nn.conv2d(image, first, 1, "SAME"))
        if between == "reverse":
            x = tf.reverse(x, [1])
        if branches > 1:
            x = tf.concat([x * (i + 1.0) for i in range(branches)], axis=3)
        return tf.nn.conv2d(x, second, 1, "SAME")

    spec = tf.TensorSpec([1, side, side, 3], tf.float32, name="image")
    function = tf.function(serve).get_concrete_function(spec)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], tf.Module())
    if integer:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        noise = [tf.random.stateless_uniform([1, side, side, 3], [5, 6])]
        converter.representative_dataset = lambda: [noise]
    return bytes(converter.convert())
