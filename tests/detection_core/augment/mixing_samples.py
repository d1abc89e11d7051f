"""Images with one bright object each, whose pixels tell where it is."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf
from hypothesis import strategies as st

from detection_core.augment.mixing import Pool
from detection_core.ops.objects import new_truth
from detection_core.structures import Sample

BOXES_PX = st.tuples(
    st.integers(0, 20), st.integers(0, 20), st.integers(4, 20), st.integers(4, 20)
)  # row, column, rows, columns; within 40 x 40
SIZES = st.tuples(st.integers(40, 64), st.integers(40, 64))


def shining(
    size: tuple[int, int], box: tuple[int, int, int, int], *, channel: int = 0, masks: bool = False
) -> Sample:
    """Make a black image with one object, bright in one channel, its class that of the channel."""
    row, column, rows, columns = box
    image = np.zeros([*size, 3], np.uint8)
    image[row : row + rows, column : column + columns, channel] = 255
    corners = [row / size[0], column / size[1], (row + rows) / size[0], (column + columns) / size[1]]
    fields = {"masks": tf.constant((image.max(-1) > 0).astype(np.uint8)[np.newaxis])} if masks else {}
    keypoints = tf.constant([[[(corners[0] + corners[2]) / 2, (corners[1] + corners[3]) / 2]]])
    fields |= {"keypoints": keypoints, "keypoint_weights": tf.ones([1, 1])}
    truth = new_truth(tf.constant([corners], tf.float32), tf.fill([1], channel), **fields)
    return Sample(tf.constant(image), truth, tf.constant(f"{size} {box} {channel}"))


def bounds(shown: np.ndarray) -> list[int]:
    """Return the box around what is True: first row and column, and those after the last."""
    points = np.argwhere(shown)
    return [*points.min(0), *(points.max(0) + 1)]


def pool_of(samples: list[Sample]) -> Pool:
    """Make a pool of samples in Python, for eager tests."""
    return Pool(size=tf.constant(len(samples), tf.int64), read=lambda number: samples[int(number)])


def partners(*samples: Sample) -> Callable[[int], Sample]:
    """Make what gives a mixing augmentation its partners."""
    return lambda number: samples[number]
