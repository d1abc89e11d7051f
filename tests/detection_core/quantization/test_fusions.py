"""Weighted sums taken apart."""

from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from detection_core.detectors.efficientdet.feature_network import NodeFusion
from detection_core.detectors.parts.necks.bifpn_fusion import WeightedFusion
from detection_core.quantization.folding import fold_batch_norms
from detection_core.quantization.fusions import ScaledMap, split_fusions
from detection_core.quantization.graph import read_graph
from tests.support.cases import cases

MAPS = [np.random.default_rng(seed).normal(size=(2, 4, 4, 5)).astype(np.float32) for seed in range(3)]


def fused(kind: type, method: str, maps: int) -> tf_keras.Model:
    """A network that is one weighted sum, with weights as no initializer gives them."""
    inputs = [tf_keras.Input((4, 4, 5), name=f"map_{index}") for index in range(maps)]
    network = tf_keras.Model(inputs, kind(method, name="sum")(inputs))
    rng = np.random.default_rng(7)
    for weight in network.weights:
        weight.assign(rng.uniform(0.1, 1.5, weight.shape))
    return network


def split(network: tf_keras.Model) -> tf_keras.Model:
    return fold_batch_norms(network, pairwise_sums=True, weighted_sums=True).network


@cases(
    *((WeightedFusion, method) for method in ("fast_attention", "weighted_sum", "attention")),
    *((NodeFusion, method) for method in ("fastattn", "attn", "channel_fastattn", "channel_attn")),
)
def test_products_and_pairwise_sums_give_the_same(*, kind, method):
    for maps in (1, 2, 3):
        network = fused(kind, method, maps)
        parts = split(network)
        assert not any(isinstance(layer, WeightedFusion) for layer in parts.layers)
        sums = [layer for layer in parts.layers if isinstance(layer, tf_keras.layers.Add)]
        assert len(sums) == maps - 1 and all(len(layer.input) == 2 for layer in sums)
        np.testing.assert_allclose(parts(MAPS[:maps]), network(MAPS[:maps]), rtol=1e-5, atol=1e-6)


def test_each_factor_trains_and_shares_that_never_move_have_none():
    for method, shape in (("attn", ()), ("channel_attn", (5,))):
        parts = split(fused(NodeFusion, method, 2))
        assert [tuple(weight.shape) for weight in parts.trainable_weights] == [shape, shape]
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(parts(MAPS[:2]))
        assert all(gradient is not None for gradient in tape.gradient(loss, parts.trainable_weights))
    parts = split(fused(WeightedFusion, "attention", 3))
    assert not any(isinstance(layer, ScaledMap) for layer in parts.layers)


def test_the_last_sum_has_the_name_and_the_rest_stays():
    graph: Any = split_fusions(read_graph(fused(NodeFusion, "attn", 2)))
    assert list(graph.calls) == ["map_0", "map_1", "sum_share_0", "sum_share_1", "sum"]
    assert graph.outputs == ("sum",)
    config = graph.calls["sum_share_0"].layer.get_config()
    assert ScaledMap.from_config(config).per_channel is False
