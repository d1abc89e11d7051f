import numpy as np
import tf_keras

from detection_core.detectors.parts.layers.gates import GATES, GateOptions, squeeze_excite
from detection_core.detectors.parts.layers.layer_hyperparams import LayerHyperparams, Regularizer
from detection_core.detectors.parts.layers.network_layers import NetworkLayers
from tests.support.cases import cases

SIGMOIDS = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "hard_sigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
}


def _gated(**options):
    inputs = tf_keras.Input((4, 5, 6))
    layers = NetworkLayers(hyperparams=LayerHyperparams(regularizer=Regularizer(kind="l2", weight=1.0)))
    outputs = squeeze_excite(inputs, layers, "backbone_block_0", GateOptions(**options))
    return tf_keras.Model(inputs, outputs), layers


@cases(*GATES)
def test_channels_are_weighed_by_their_means(*, gate):
    network, _ = _gated(channels=3, activation="relu", gate=gate)
    rng = np.random.default_rng(0)
    for weight in network.weights:
        weight.assign(rng.normal(0, 2, weight.shape))
    features = rng.normal(0, 1, (2, 4, 5, 6)).astype(np.float32)
    kernels = [weight.numpy() for weight in network.weights]
    means = np.maximum(features.mean((1, 2)) @ kernels[0][0, 0] + kernels[1], 0)
    weights = SIGMOIDS[gate](means @ kernels[2][0, 0] + kernels[3])
    assert weights.min() < 0.1 and weights.max() > 0.9
    np.testing.assert_allclose(network(features), features * weights[:, None, None], rtol=1e-4, atol=1e-6)


@cases(False, True)
def test_biases_are_regularized_where_that_is_asked_for(*, biases):
    _, layers = _gated(channels=3, activation="swish", regularize_biases=biases)
    pieces = [f"backbone_block_0_gate_{piece}" for piece in ("reduce", "expand")]
    leaves = ("kernel", "bias") if biases else ("kernel",)
    assert set(layers.regularizers) == {f"{piece}/{leaf}" for piece in pieces for leaf in leaves}
