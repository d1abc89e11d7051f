"""Channels of like ranges: the same outputs in float, less noise in integers."""

import numpy as np
import pytest
import tf_keras
from tf_keras import layers

from detection_core.errors import ModelError
from detection_core.quantization.equalisation import HEADROOM, LARGEST_SCALE, equalise
from detection_core.quantization.folding import fold_batch_norms
from tests.support.cases import cases
from tests.support.tiny_network import randomise, tiny_network

PIXELS = np.random.default_rng(3).uniform(-1, 1, (4, 32, 32, 3)).astype(np.float32)


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


def test_a_network_gives_what_it_gave_and_names_what_was_scaled():
    folded = fold_batch_norms(tiny_network())
    with pytest.raises(ModelError, match="at least one batch to equalise"):
        equalise(folded, [])
    before = outputs_of(folded.network)
    scales = equalise(folded, [PIXELS])
    for one, other in zip(before, outputs_of(folded.network), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-4)
    # What the others give is added to something, or is an output.
    assert set(scales) == {"dw", "tower_level_0", "tower_level_1"}
    assert all((factors >= 1).all() for factors in scales.values())


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
        return
    after, free = largest_of(folded.network, name), factors < LARGEST_SCALE
    assert free[1:].all() and np.ptp(channels) > 0
    np.testing.assert_allclose(after[free], after.max(), rtol=1e-4)


def test_in_front_of_a_dense_convolution_kernels_and_ranges_share_the_gain():
    folded = fold_batch_norms(pair(layers.ReLU(), layers.Conv2D(5, 1, name="second")))
    name = folded.network.layers[-2].name
    before, ranges = outputs_of(folded.network)[0], largest_of(folded.network, name)
    assert len(equalise(folded, [PIXELS])) == 1
    after = largest_of(folded.network, name)
    assert 0.1 < np.ptp(np.log(after)) < np.ptp(np.log(ranges))  # not wholly, as the kernels pay for it
    assert after.max() <= ranges.max() * (1 + 1e-5)
    np.testing.assert_allclose(outputs_of(folded.network)[0], before, rtol=1e-4, atol=1e-5)


def test_dead_channels_and_what_others_read_too_are_left_alone():
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
