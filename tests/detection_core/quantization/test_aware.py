"""The quantization-aware network: close to the float one, trainable, restorable."""

import numpy as np
import pytest
import tensorflow as tf

from detection_core.errors import ModelError
from detection_core.quantization.aware import (
    AwareNetwork,
    add_fake_quantization,
    observe_ranges,
    read_ranges,
    set_ranges,
)
from detection_core.quantization.folding import fold_batch_norms
from detection_core.quantization.options import QuantizationOptions
from tests.support.tiny_network import tiny_network

PIXELS = np.random.default_rng(3).uniform(-1, 1, (4, 32, 32, 3)).astype(np.float32)


def build(options: QuantizationOptions, seed: int = 0, step: tf.Variable | None = None) -> AwareNetwork:
    folded = fold_batch_norms(tiny_network(seed=seed))
    aware = add_fake_quantization(folded, options, input_range=(-1.0, 1.0), step=step)
    set_ranges(aware, observe_ranges(folded, aware.placement, [PIXELS]))
    return aware


def test_eight_bits_stay_close_and_fewer_bits_less_so():
    def error(**options) -> float:
        """Mean distance from the float network, in units of its outputs' spread."""
        aware = build(QuantizationOptions(delay=0, **options))
        pairs = zip(aware.network(PIXELS, training=False), floats(PIXELS, training=False), strict=True)
        return max(float(np.mean(np.abs(a - b)) / np.std(b)) for a, b in pairs)

    floats = tiny_network()
    at = {bits: error(weight_bits=bits, activation_bits=bits) for bits in (4, 8, 12)}
    assert 0 < at[12] < 0.01 < at[8] < 0.05 < at[4]
    assert error(symmetric=True) > at[8]


def test_ranges_are_means_of_the_batches_extremes():
    folded = fold_batch_norms(tiny_network())
    placement = build(QuantizationOptions(delay=0)).placement
    with pytest.raises(ModelError, match="at least one batch"):
        observe_ranges(folded, placement, [])
    first, second = PIXELS[:2], PIXELS[2:]
    found, *halves = (observe_ranges(folded, placement, b) for b in ([first, second], [first], [second]))
    assert set(found) == set(placement.observed) - {"pixels"}
    for name, ends in found.items():
        np.testing.assert_allclose(ends, np.mean([half[name] for half in halves], axis=0), 1e-5, 1e-6)
    assert found["stem_relu"][0] == 0.0 and found["stem_relu"][1] <= 6.0


def test_a_checkpoint_holds_weights_and_ranges(tmp_path):
    first = build(QuantizationOptions(delay=0))
    prefix = tf.train.Checkpoint(model=first.network).write(str(tmp_path / "ckpt"))
    second = build(QuantizationOptions(delay=0), seed=9)
    before = second.network(PIXELS, training=False)[0].numpy()
    tf.train.Checkpoint(model=second.network).read(prefix).assert_existing_objects_matched()
    assert read_ranges(first) == read_ranges(second)
    expected = first.network(PIXELS, training=False)[0].numpy()
    np.testing.assert_array_equal(second.network(PIXELS, training=False)[0], expected)
    assert not np.allclose(before, expected)


def test_training_before_the_delay_is_training_of_the_folded_network():
    step = tf.Variable(0, dtype=tf.int64)
    aware = build(QuantizationOptions(delay=1, weight_bits=3), step=step)
    plain = fold_batch_norms(tiny_network()).network
    call = tf.function(lambda x: aware.network(x, training=True))
    np.testing.assert_allclose(call(PIXELS)[0], plain(PIXELS)[0], atol=1e-5, rtol=0)
    step.assign_add(1)
    assert np.abs(call(PIXELS)[0] - plain(PIXELS)[0]).max() > 0.1


def test_every_kernel_and_bias_learns():
    aware = build(QuantizationOptions(delay=0))
    names = [v.name for v in aware.network.trainable_variables]
    assert len(names) == len(set(names)) == 22 and "tower_level_1/kernel:0" in names
    with tf.GradientTape() as tape:
        loss = tf.add_n([tf.reduce_mean(o**2) for o in aware.network(PIXELS, training=True)])
    gradients = tape.gradient(loss, aware.network.trainable_variables)
    assert all(g is not None and float(tf.reduce_max(tf.abs(g))) > 0 for g in gradients)
