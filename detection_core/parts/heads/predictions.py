"""Protocol and outputs of prediction heads."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import tensorflow as tf
import tf_keras

from detection_core.parts.layers.network_layers import NetworkLayers


class LevelPredictions(NamedTuple):
    """Outputs of a head over all feature maps.

    Attributes:
        box_codes: float32 [B, A, code size], feature maps in sequence, row by row.
        class_logits: float32 [B, A, class slots], in the same order.
    """

    box_codes: tf.Tensor
    class_logits: tf.Tensor


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeadOutputs:
    """The required outputs of a head.

    Attributes:
        anchors_per_location: of each feature map, finest first.
        num_class_slots: number of classes, plus one for the background if the model has it.
        code_size: numbers in a box code.
    """

    anchors_per_location: Sequence[int]
    num_class_slots: int
    code_size: int = 4


class PredictionHead(Protocol):
    """Predicts box codes and class logits from feature maps."""

    def __call__(
        self, feature_maps: Sequence[tf.Tensor], layers: NetworkLayers, outputs: HeadOutputs
    ) -> LevelPredictions:
        """Add the head's layers to the network."""


MOST_JOINED = 5
"""Tensors concatenated at a time: XNNPACK leaves larger concatenations to other kernels."""


def per_anchor(maps: Sequence[tf.Tensor], size: int, name: str) -> tf.Tensor:
    """Reshape and concatenate maps [B, h, w, anchors x size] to one tensor [B, A, size]."""
    rows = [
        tf_keras.layers.Reshape((-1, size), name=f"{name}_rows_{level}")(features)
        for level, features in enumerate(maps)
    ]
    return _joined(rows, name)


def _joined(rows: list[tf.Tensor], name: str) -> tf.Tensor:
    """Concatenate tensors [B, n, size] along their rows, `MOST_JOINED` at a time."""
    if len(rows) == 1:
        return rows[0]
    parts = [rows[start : start + MOST_JOINED] for start in range(0, len(rows), MOST_JOINED)]
    if len(parts) > 1:
        rows = [_joined(part, f"{name}_part_{number}") for number, part in enumerate(parts)]
    return tf_keras.layers.Concatenate(axis=1, name=name)(rows)
