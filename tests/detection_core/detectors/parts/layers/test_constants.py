import numpy as np
import tf_keras

from detection_core.detectors.parts.layers.constants import AddConstant, MultiplyByConstant


def test_a_constant_is_added_and_multiplied_and_comes_back_from_a_config():
    features = np.array([[-1.5, 0.0, 2.0]], np.float32)
    inputs = tf_keras.Input((3,))
    network = tf_keras.Model(inputs, MultiplyByConstant(0.5, name="half")(AddConstant(3.0)(inputs)))
    copied = tf_keras.Model.from_config(network.get_config())
    assert copied.get_layer("half").value == 0.5
    np.testing.assert_allclose(copied(features), [[0.75, 1.5, 2.5]])
