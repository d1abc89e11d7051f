"""Histograms of parameters and gradients, computed inside the compiled update when due."""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from detection_core.loggers.base import Histogram
from detection_core.parts.layers.layer_names import scoped_name

BINS = 30
"""Number of bins of equal width, as in TensorBoard."""

GRADIENTS, PARAMETERS = "gradients", "parameters"


def measured_histograms(
    due: tf.Tensor, variables: Sequence[tf.Variable], gradients: Sequence[tf.Tensor], replicas: int
) -> dict[str, tf.Tensor]:
    """Compute histograms of variables and of gradients summed over the replicas, if `due`, bool [].

    They are float32 [BINS, 3] by name: lower edge, upper edge and count; all zero where not due.
    """
    names = [scoped_name(variable) for variable in variables]
    if replicas > 1:  # all replicas take part in a sum, due or not
        gradients = tf.distribute.get_replica_context().all_reduce("SUM", list(gradients))

    def measure() -> list[tf.Tensor]:
        return [
            _counted(tf.reshape(tf.cast(values, tf.float32), [-1])) for values in (*gradients, *variables)
        ]

    def leave() -> list[tf.Tensor]:
        return [tf.zeros([BINS, 3])] * (2 * len(names))

    found = tf.cond(due, measure, leave)
    keys = [f"{kind}/{name}" for kind in (GRADIENTS, PARAMETERS) for name in names]
    return dict(zip(keys, found, strict=True))


# Traced once: tracing it for each of hundreds of variables would take minutes.
@tf.function(input_signature=[tf.TensorSpec([None], tf.float32)], autograph=False)
def _counted(flat: tf.Tensor) -> tf.Tensor:
    """Count the finite values in bins between their minimum and maximum."""
    finite = tf.gather(flat, tf.where(tf.math.is_finite(flat))[:, 0])
    some = tf.size(finite) > 0
    low = tf.where(some, tf.reduce_min(finite), 0.0)
    high = tf.where(some, tf.reduce_max(finite), 0.0)
    # With equal values, the range still needs a width that float32 can divide.
    high = tf.maximum(high, low + tf.maximum(1e-12, 1e-5 * tf.abs(low)))
    counts = tf.histogram_fixed_width(finite, tf.stack([low, high]), BINS)
    edges = low + (high - low) * tf.constant(np.linspace(0.0, 1.0, BINS + 1), tf.float32)
    return tf.stack([edges[:-1], edges[1:], tf.cast(counts, tf.float32)], axis=1)


def as_histograms(measured: Mapping[str, tf.Tensor]) -> dict[str, Histogram]:
    """Convert an update's histograms for loggers."""
    rows = {name: np.asarray(value, np.float64) for name, value in measured.items()}
    return {
        name: Histogram(edges=np.append(each[:, 0], each[-1, 1]), counts=each[:, 2])
        for name, each in rows.items()
    }
