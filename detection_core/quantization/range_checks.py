"""Check the ranges of a quantized network against its tensors on real input.

A range that is too narrow clips values; one that is too wide leaves them few steps. Moving averages of the
batches' extremes (Jacob et al., 2018, section 3.1, https://arxiv.org/abs/1712.05877) may become either. This
happens if the training was short or the weights changed later.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from detection_core.artifacts.quantization import RangeUse
from detection_core.detectors.quantization import RangeCheck
from detection_core.ops.tracing import compile_for_batches, results_of
from detection_core.quantization.aware import PREFIX, AwareNetwork, read_ranges
from detection_core.quantization.quantizers import unquantized_outputs

MOST_CUT = 0.01
"""Warn from this fraction of a tensor's values outside of its range."""
LEAST_USED = 0.25
"""Warn if values use less than this fraction of a range; two of eight bits are then unused."""


def check_ranges(aware: AwareNetwork, batches: Iterable[Any]) -> RangeCheck:
    """Run a quantized network on float32 [B, H, W, 3] and measure outputs; ModelError without a batch."""
    ranges = read_ranges(aware)
    measure = _statistics(aware, list(ranges))
    found = np.array(list(results_of(measure, batches, "check ranges")), np.float64)
    ends = [found[..., 0].min(axis=0), found[..., 1].max(axis=0), *found[..., 2:].sum(axis=0).T]
    totals = np.stack(ends, axis=1).tolist()
    uses = {
        name: RangeUse(observed=(low, high), cut=cut / count, used=_used((low, high), learnt))
        for (name, learnt), (low, high, cut, count) in zip(ranges.items(), totals, strict=True)
    }
    warnings = [_warning(name, ranges[name], use) for name, use in uses.items()]
    return RangeCheck(uses=uses, warnings=tuple(text for text in warnings if text))


def _statistics(aware: AwareNetwork, names: Sequence[str]) -> Any:
    """Return a function of a batch: float32 [layers, 4], lowest, highest, clipped count, count."""
    layers = [aware.network.get_layer(PREFIX + name) for name in names]

    def measure(pixels: tf.Tensor) -> tf.Tensor:
        with unquantized_outputs() as outputs:
            aware.network(pixels, training=False)
        rows = []
        for layer in layers:
            values = outputs[layer.name]
            low, high = layer.output_range()
            # Values up to half a step beyond the ends are rounded, not clipped.
            outside = (values < low - (high - low) / 510) | (values > high + (high - low) / 510)
            count = tf.cast(tf.size(values), tf.float32)
            cut = tf.reduce_sum(tf.cast(outside, tf.float32))
            rows.append(tf.stack([tf.reduce_min(values), tf.reduce_max(values), cut, count]))
        return tf.stack(rows)

    return compile_for_batches(aware.network, measure)


def _used(observed: tuple[float, float], learnt: tuple[float, float]) -> float:
    """Return the fraction of a range (which includes zero) that values use; 1 for an empty range."""
    low, high = min(learnt[0], 0.0), max(learnt[1], 0.0)
    if observed[0] == observed[1] or low == high:
        return 1.0
    inside = min(observed[1], high) - max(observed[0], low)
    return max(0.0, inside) / (high - low)


def _warning(name: str, learnt: tuple[float, float], use: RangeUse) -> str:
    low, high = use.observed
    prefix = f"{name}: range {learnt[0]:.4g}..{learnt[1]:.4g}, values {low:.4g}..{high:.4g}"
    if use.cut > MOST_CUT:
        return f"{prefix}: {100 * use.cut:.3g} % of the values are cut off"
    if use.used < LEAST_USED:
        return f"{prefix}: only {100 * use.used:.3g} % of the range is used"
    return ""
