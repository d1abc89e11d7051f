"""Layers that bring a map to the rows and columns of another."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras


@tf_keras.utils.register_keras_serializable(package="detflow")
class NearestResize(tf_keras.layers.Layer):
    """Repeats rows and columns: each takes the one at its place times the ratio of sizes, rounded down.

    Unlike `UpSampling2D` with a crop it spreads the repetitions over an odd size.

    Args:
        rows: of the output.
        columns: of the output.
        **settings: of every layer.
    """

    def __init__(self, rows: int, columns: int, **settings: Any) -> None:
        super().__init__(**settings)
        self.rows = rows
        self.columns = columns

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Resize float32 [B, h, w, C] to [B, rows, columns, C]."""
        return tf.raw_ops.ResizeNearestNeighbor(images=inputs, size=[self.rows, self.columns])

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {**super().get_config(), "rows": self.rows, "columns": self.columns}
