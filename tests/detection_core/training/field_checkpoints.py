"""Writes object-based checkpoints as other software does: the keys of the field, and an object graph."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

import numpy as np
import tensorflow as tf


def write_object_checkpoint(values: Mapping[str, np.ndarray], prefix: pathlib.Path) -> str:
    """Write variables under object paths such as `model/_box_predictor/0/kernel`; returns the prefix."""
    children: dict[str, dict[str, np.ndarray]] = {}
    for path, value in values.items():
        first, rest = path.split("/", 1)
        children.setdefault(first, {})[rest] = value
    root = tf.train.Checkpoint(**{name: _node(below) for name, below in children.items()})
    return str(root.write(str(prefix)))


def _node(values: Mapping[str, np.ndarray]) -> tf.train.Checkpoint:
    fields: dict[str, tf.Variable | tf.train.Checkpoint] = {}
    below: dict[str, dict[str, np.ndarray]] = {}
    for path, value in values.items():
        first, _, rest = path.partition("/")
        if rest:
            below.setdefault(first, {})[rest] = value
        else:
            fields[first] = tf.Variable(value)
    fields.update({name: _node(rest) for name, rest in below.items()})
    return tf.train.Checkpoint(**fields)
