"""What one update of the weights tells."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf


class StepOutputs(NamedTuple):
    """What one update tells.

    Attributes:
        losses: name to float32 [], before the update.
        learning_rate: float32 [].
        scalars: name to float32 []: norms where gradients are summarised, the loss's factor in float16.
        skipped: float32 [], above 0 where the update was left out, as its loss or a gradient is not finite.
            A gradient beyond float16 is no reason: the loss's factor follows it.
        histograms: name to float32 [BINS, 3], zeros where none are due, see `measured_histograms`.
    """

    losses: dict[str, tf.Tensor]
    learning_rate: tf.Tensor
    scalars: dict[str, tf.Tensor]
    skipped: tf.Tensor
    histograms: dict[str, tf.Tensor]
