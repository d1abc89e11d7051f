"""Networks that learn to bear integers, and checks of their ranges."""

import functools
import operator

import hypothesis.strategies as st
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from hypothesis import given, settings
from tf_keras import layers

from detection_core.artifacts.quantization import QUANTIZATION, QuantizationOptions
from detection_core.errors import ModelError
from detection_core.quantization.aware import (
    AwareNetwork,
    add_fake_quantization,
    mean_ranges,
    measure_extremes,
    read_ranges,
    set_ranges,
)
from detection_core.quantization.equalisation import HEADROOM, LARGEST_SCALE, equalise
from detection_core.quantization.folding import FoldedNetwork, fold_batch_norms
from detection_core.quantization.graph import read_graph
from detection_core.quantization.placement import Placement, place_quantizers
from detection_core.quantization.range_checks import check_ranges
from detection_core.quantization.rewriting import rewrite
from tests.support.cases import cases, refused
from tests.support.tiny_detector import TinyDetector
from tests.support.tiny_network import observe_ranges, randomise, tiny_network

PIXELS = np.random.default_rng(3).uniform(-1, 1, (4, 32, 32, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def network() -> tuple[FoldedNetwork, Placement]:
    folded = fold_batch_norms(tiny_network())
    return folded, place_quantizers(read_graph(folded.network), ())


def build(options: QuantizationOptions, seed: int = 0, step: tf.Variable | None = None) -> AwareNetwork:
    folded = fold_batch_norms(tiny_network(seed=seed))
    aware = add_fake_quantization(folded, options, input_range=(-1.0, 1.0), step=step)
    set_ranges(aware, observe_ranges(folded, aware.placement, [PIXELS]))
    return aware


def test_ranges_are_means_of_the_batches_extremes_and_fewer_bits_stay_less_close():
    def error(**options) -> float:
        """Mean distance from the float network, in units of its outputs' spread."""
        aware = build(QuantizationOptions(delay=0, **options))
        pairs = zip(aware.network(PIXELS, training=False), floats(PIXELS, training=False), strict=True)
        return max(float(np.mean(np.abs(a - b)) / np.std(b)) for a, b in pairs)

    floats = tiny_network()
    at = {bits: error(weight_bits=bits, activation_bits=bits) for bits in (4, 8, 12)}
    assert 0 < at[12] < 0.01 < at[8] < 0.05 < at[4] and error(symmetric=True) > at[8]
    folded = fold_batch_norms(tiny_network())
    placement = build(QuantizationOptions(delay=0)).placement
    refused(ModelError, "at least one batch", observe_ranges, folded, placement, [])
    first, second = PIXELS[:2], PIXELS[2:]
    found, *halves = (observe_ranges(folded, placement, b) for b in ([first, second], [first], [second]))
    assert set(found) == set(placement.observed) - {"pixels"}
    for name, ends in found.items():
        np.testing.assert_allclose(ends, np.mean([half[name] for half in halves], axis=0), 1e-5, 1e-6)
    assert found["stem_relu"][0] == 0.0 and found["stem_relu"][1] <= 6.0


@settings(max_examples=50, deadline=None)
@given(data=st.data(), count=st.integers(1, 40))
def test_ranges_do_not_depend_on_who_measured_which_batch_and_who_came_first(network, data, count):
    observed = len(network[1].observed) - 1  # that of the input is known
    numbers = data.draw(st.permutations(range(count)))
    values = np.random.default_rng(count).normal(0, 10.0 ** (count % 9), (count, observed, 2))
    batches = dict(enumerate(values.astype(np.float32)))
    cuts = sorted(data.draw(st.lists(st.integers(0, count), max_size=6)))
    groups = [numbers[a:b] for a, b in zip([0, *cuts], [*cuts, count], strict=True)]
    parts = [{number: batches[number] for number in group} for group in groups]
    joined = functools.reduce(operator.or_, data.draw(st.permutations(parts)))
    expected = np.mean(list(batches.values()), axis=0)  # the definition: batches are added in order
    found = mean_ranges(*network, joined)
    assert list(found.values()) == [tuple(row) for row in expected.astype(float).tolist()]


def test_each_batch_has_the_extremes_that_a_slow_loop_finds_alone_and_after_others(network):
    folded, placement = network
    measure = measure_extremes(folded, placement)
    found = [measure(pixels) for pixels in (PIXELS[:2], PIXELS[2:], PIXELS[:2])]
    np.testing.assert_array_equal(found[0], found[2])
    np.testing.assert_array_equal(found[1], measure_extremes(folded, placement)(PIXELS[2:]))
    names = mean_ranges(folded, placement, {0: found[0]})
    assert found[0].dtype == np.float32 and len(names) == len(placement.observed) - 1
    for name, ends in zip(names, found[0], strict=True):
        output = tf_keras.Model(folded.network.inputs, folded.network.get_layer(name).output)(PIXELS[:2])
        np.testing.assert_allclose(ends, [np.min(output), np.max(output)], rtol=1e-5, atol=1e-6)


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


def test_every_kernel_and_bias_learns_and_before_the_delay_as_in_the_folded_network():
    step = tf.Variable(0, dtype=tf.int64)
    aware = build(QuantizationOptions(delay=1, weight_bits=3), step=step)
    plain = fold_batch_norms(tiny_network()).network
    call = tf.function(lambda x: aware.network(x, training=True))
    np.testing.assert_allclose(call(PIXELS)[0], plain(PIXELS)[0], atol=1e-5, rtol=0)
    step.assign_add(1)
    assert np.abs(call(PIXELS)[0] - plain(PIXELS)[0]).max() > 0.1
    aware = build(QuantizationOptions(delay=0))
    names = [v.name for v in aware.network.trainable_variables]
    assert len(names) == len(set(names)) == 22 and "tower_level_1/kernel:0" in names
    with tf.GradientTape() as tape:
        loss = tf.add_n([tf.reduce_mean(o**2) for o in aware.network(PIXELS, training=True)])
    gradients = tape.gradient(loss, aware.network.trainable_variables)
    assert all(g is not None and float(tf.reduce_max(tf.abs(g))) > 0 for g in gradients)


def outputs_of(network: tf_keras.Model) -> list[np.ndarray]:
    found = network(PIXELS, training=False)
    return [one.numpy() for one in (found if isinstance(found, list) else [found])]


def depthwise() -> layers.Layer:
    return layers.DepthwiseConv2D(3, name="second")


def largest_of(network: tf_keras.Model, name: str) -> np.ndarray:
    output = tf_keras.Model(network.inputs, network.get_layer(name).output)(PIXELS).numpy()
    return np.abs(output).max(axis=(0, 1, 2))


def pair(activation: layers.Layer | None, reader: layers.Layer) -> tf_keras.Model:
    """A convolution, what follows it, and what reads it."""
    pixels = tf_keras.Input((32, 32, 3))
    x = layers.Conv2D(6, 3, name="first")(pixels)
    x = activation(x) if activation else x
    network = tf_keras.Model(pixels, reader(x))
    randomise(network, 1)
    first = network.get_layer("first")
    first.kernel.assign(first.kernel * np.float32([0.01, 0.1, 0.2, 0.5, 0.8, 0.9]))
    first.bias.assign(np.full(6, 0.005, np.float32))  # so that no channel is dead behind a ReLU
    return network


@cases(None, {}, {"negative_slope": 0.1}, {"max_value": 6.0})
def test_in_front_of_a_depthwise_convolution_all_channels_get_the_largest_one_s_range(*, relu):
    folded = fold_batch_norms(pair(relu if relu is None else layers.ReLU(**relu), depthwise()))
    name = folded.network.layers[-2].name
    before, channels = outputs_of(folded.network), largest_of(folded.network, "first")
    ranges = largest_of(folded.network, name)
    (factors,) = equalise(folded, [PIXELS[:2], PIXELS[2:]]).values()
    np.testing.assert_allclose(outputs_of(folded.network)[0], before[0], rtol=1e-4, atol=1e-5)
    if relu == {"max_value": 6.0}:  # cuts no channel where it did not
        assert (factors > 1).any()
        assert (ranges * factors * HEADROOM <= 6.0 * (1 + 1e-5))[ranges * HEADROOM < 6.0].all()
        free = (factors > 1) & (factors < LARGEST_SCALE)
        room = np.maximum(np.minimum(ranges * HEADROOM, 6.0), ranges)
        np.testing.assert_allclose((room * factors)[free], room.max(), rtol=1e-4)
        return
    after, free = largest_of(folded.network, name), factors < LARGEST_SCALE
    assert free[1:].all() and np.ptp(channels) > 0
    np.testing.assert_allclose(after[free], after.max(), rtol=1e-4)


def test_equalised_a_network_gives_what_it_gave_and_dead_or_shared_channels_are_left_alone():
    folded = fold_batch_norms(tiny_network())
    refused(ModelError, "at least one batch to equalise", equalise, folded, [])
    before = outputs_of(folded.network)
    scales = equalise(folded, [PIXELS])
    for one, other in zip(before, outputs_of(folded.network), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-4)
    # What the others give is added to something, or is an output.
    assert set(scales) == {"dw", "tower_level_0", "tower_level_1"}
    assert all((factors >= 1).all() for factors in scales.values())
    folded = fold_batch_norms(pair(layers.ReLU(), layers.Conv2D(5, 1, name="second")))
    name = folded.network.layers[-2].name
    before, ranges = outputs_of(folded.network)[0], largest_of(folded.network, name)
    assert len(equalise(folded, [PIXELS])) == 1
    after = largest_of(folded.network, name)
    assert 0.1 < np.ptp(np.log(after)) < np.ptp(np.log(ranges))  # not wholly, as the kernels pay for it
    assert after.max() <= ranges.max() * (1 + 1e-5)
    np.testing.assert_allclose(outputs_of(folded.network)[0], before, rtol=1e-4, atol=1e-5)
    for readers in (
        lambda first: [layers.Add()([layers.DepthwiseConv2D(1)(first), first])],
        lambda first: [layers.DepthwiseConv2D(1)(first), first],
        lambda first: [layers.DepthwiseConv2D(1)(layers.Activation("swish")(first))],
    ):
        pixels = tf_keras.Input((32, 32, 3))
        network = tf_keras.Model(pixels, readers(layers.Conv2D(4, 1, name="first")(pixels)))
        randomise(network, 1)
        assert equalise(fold_batch_norms(network), [PIXELS]) == {}
    network = pair(layers.ReLU(), depthwise())
    for weight in network.get_layer("first").weights:
        weight.assign(weight * np.float32([1, 1, 0, 1, 1, 1]))
    (factors,) = equalise(fold_batch_norms(network), [PIXELS]).values()
    assert factors[2] == 1.0 and np.isfinite(factors).all()


BATCHES = [
    tf.constant(np.random.default_rng(seed).uniform(-1, 1, (2, 32, 32, 3)).astype(np.float32))
    for seed in range(2)
]
FINE = QuantizationOptions(delay=0, weight_bits=16, activation_bits=16)


@pytest.fixture(scope="module")
def aware():
    """A network whose quantization is too fine to be seen, so that the float network tells its values."""
    made = add_fake_quantization(fold_batch_norms(tiny_network()), FINE, input_range=(-1.0, 1.0))
    set_ranges(made, dict.fromkeys(read_ranges(made), (-100.0, 100.0)))
    return made


def test_values_are_those_before_quantization_and_the_network_stays_as_it_was(aware):
    refused(ModelError, "at least one batch to check ranges on", check_ranges, aware, [])
    before = aware.network(BATCHES[0], training=False)[0].numpy()
    check = check_ranges(aware, BATCHES)
    np.testing.assert_array_equal(aware.network(BATCHES[0], training=False)[0], before)
    assert len(aware.network.trainable_weights) > 0
    values, found = float_codes(), check.uses["box_codes"]
    np.testing.assert_allclose(found.observed, [values.min(), values.max()], atol=0.05)
    assert found.cut == 0.0
    assert found.used == pytest.approx((values.max() - values.min()) / 200, rel=0.02)
    assert "pixels" not in check.uses
    (warning,) = [text for text in check.warnings if text.startswith("class_logits:")]
    assert "range -100..100" in warning and "% of the range is used" in warning


def test_a_range_that_cuts_values_off_is_told_with_the_layer(aware):
    before, values = read_ranges(aware), float_codes()
    top = max(float(np.median(values)), 0.01)
    try:
        set_ranges(aware, {"box_codes": (min(values.min(), 0), top)})
        check = check_ranges(aware, BATCHES)
    finally:
        set_ranges(aware, before)
    (warning,) = [text for text in check.warnings if text.startswith("box_codes:")]
    assert "% of the values are cut off" in warning
    assert check.uses["box_codes"].cut == pytest.approx(float((values > top).mean()), abs=0.02)
    assert check.uses["box_codes"].observed[1] == pytest.approx(values.max(), abs=0.05)


def float_codes() -> np.ndarray:
    network = tiny_network()
    return np.concatenate([network(pixels, training=False)[0] for pixels in BATCHES])


def test_calibrated_ranges_are_neither(caplog):
    rewritten = rewrite(TinyDetector(), QuantizationOptions(delay=0))
    pixels = [(batch + 1) * 127.5 for batch in BATCHES]
    rewritten.calibrate(pixels)
    check = rewritten.check_ranges(pixels)
    assert check.warnings == () and set(check.uses) == set(read_ranges(rewritten.aware))
    assert all(use.cut < 0.01 and use.used > 0.9 for use in check.uses.values())
    again = QUANTIZATION.parse(QUANTIZATION.format(rewritten.describe(check)), "quantization.json")
    assert {layer.layer: layer.use for layer in again.quantized if layer.use} == check.uses
