"""Small TensorFlow Lite files with a part that XNNPACK runs, and one that it does not."""

import functools
from collections.abc import Callable

import tensorflow as tf


@functools.cache
def convolutions(*, between: str = "", integer: bool = False, side: int = 16) -> bytes:
    """Two convolutions, and what may lie between them; for integers quantized after training.

    XNNPACK does not have `reverse`, and takes five branches: it runs `concat5` and not `concat6`.
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

    noise = [[tf.random.stateless_uniform([1, side, side, 3], [5, 6])]]
    return converted(serve, [1, side, side, 3], noise if integer else None)


@functools.cache
def upsampling(rows: int, columns: int, *, half_pixel: bool = False, integer: bool = True) -> bytes:
    """A convolution, a nearest-neighbour resizing from 3 x 5 to some size, and a convolution."""
    kernel = tf.random.stateless_uniform([1, 1, 6, 6], [1, 2], -0.5, 0.5)

    def serve(image):
        x = tf.nn.conv2d(image, kernel, 1, "SAME")
        x = tf.raw_ops.ResizeNearestNeighbor(images=x, size=[rows, columns], half_pixel_centers=half_pixel)
        return tf.nn.conv2d(x, kernel, 1, "SAME")

    noise = [[tf.random.stateless_normal([1, 3, 5, 6], [seed, 0])] for seed in range(3)]
    return converted(serve, [1, 3, 5, 6], noise if integer else None)


@functools.cache
def strided(stride: int, kernel: int) -> bytes:
    """An integer depthwise convolution."""
    weights = tf.random.stateless_uniform([kernel, kernel, 3, 1], [1, 2], -0.5, 0.5)

    def serve(image):
        return tf.nn.depthwise_conv2d(image, weights, [1, stride, stride, 1], "SAME")

    return converted(serve, [1, 16, 16, 3], [[tf.random.stateless_normal([1, 16, 16, 3], [1, 0])]])


@functools.cache
def sliced(step: int) -> bytes:
    """An integer convolution, every so many rows of which are kept; of every one it would be a SLICE."""
    weights = tf.random.stateless_uniform([3, 3, 3, 4], [1, 2], -0.5, 0.5)

    def serve(image):
        found = tf.nn.conv2d(image, weights, 1, "SAME")
        return tf.strided_slice(found, [0, 2, 0, 0], [1, 10, 16, 4], [1, step, 1, 1])

    return converted(serve, [1, 16, 16, 3], [[tf.random.stateless_normal([1, 16, 16, 3], [1, 0])]])


def converted(serve: Callable[..., tf.Tensor], shape: list[int], noise: list | None = None) -> bytes:
    """Convert a function, to integers where there is noise to measure ranges with."""
    spec = tf.TensorSpec(shape, tf.float32, name="image")
    function = tf.function(serve).get_concrete_function(spec)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], tf.Module())
    if noise is not None:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: noise
    return bytes(converter.convert())
