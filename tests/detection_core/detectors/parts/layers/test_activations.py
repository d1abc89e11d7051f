import numpy as np
import tf_keras

from detection_core.detectors.parts.layers.activations import FUNCTIONS
from detection_core.detectors.parts.layers.layer_hyperparams import LayerHyperparams
from detection_core.detectors.parts.layers.network_layers import NetworkLayers
from tests.support import efficientdet_goldens as goldens
from tests.support.cases import cases


@cases("swish", "relu", "relu6", *FUNCTIONS)
def test_layers_equal_the_reference(*, name):
    given = goldens.given("layers", f"activation_{name}")["x"][:, np.newaxis]
    inputs = tf_keras.Input((1,))
    layers = NetworkLayers(hyperparams=LayerHyperparams(activation=name))
    model = tf_keras.Model(inputs, layers.activation("act")(inputs))
    wanted = goldens.wanted("layers", f"activation_{name}")["y"]
    np.testing.assert_allclose(model(given)[:, 0], wanted, 1e-4, 1e-5)
    copy = tf_keras.Model.from_config(model.get_config())
    np.testing.assert_array_equal(copy(given), model(given))
