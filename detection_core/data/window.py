"""Each sample of a sequence with those that follow it."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def with_following(elements: tf.data.Dataset, count: int) -> tf.data.Dataset:
    """Return, for each element, a dataset of it and those after it.

    The elements are held once, whatever the number of windows that they are in. Where a sequence ends, its
    last windows are smaller.

    Args:
        elements: of any structure; images may differ in size.
        count: how many following elements a window has.
    """
    return elements.window(count + 1, shift=1).map(_one_dataset)


@tf.autograph.experimental.do_not_convert
def _one_dataset(*fields: Any) -> tf.data.Dataset:
    structure = fields[0] if len(fields) == 1 else fields
    return tf.data.Dataset.zip(structure)


def element_at(window: tf.data.Dataset, number: tf.Tensor) -> Any:
    """Return one element of a window, by its int64 [] number."""
    return window.skip(number).take(1).get_single_element()


def window_size(window: tf.data.Dataset) -> tf.Tensor:
    """Return int64 [], how many elements a window has."""
    return window.cardinality()
