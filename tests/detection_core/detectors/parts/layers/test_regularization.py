import numpy as np
import tf_keras

from detection_core.detectors.parts.layers.layer_hyperparams import Regularizer
from detection_core.detectors.parts.layers.regularization import regularization_loss, regularized_variables

REGULARIZERS = {
    "a/kernel": Regularizer(kind="l2", weight=0.5),
    "gone/kernel": Regularizer(kind="l1", weight=1.0),
}


def _network() -> tf_keras.Model:
    inputs = tf_keras.Input((2,))
    layer = tf_keras.layers.Dense(2, kernel_initializer="ones", name="a")
    return tf_keras.Model(inputs, tf_keras.layers.Add()([layer(inputs), layer(layer(inputs))]))


def test_a_shared_layer_is_regularized_once_and_a_lost_one_is_reported(caplog):
    found = regularized_variables(_network(), REGULARIZERS)
    assert [variable.name for variable, _ in found] == ["a/kernel:0"]
    np.testing.assert_allclose(regularization_loss(found), 0.5 * 0.5 * 4.0)
    assert "1 of 2 regularized weights" in caplog.text
    assert "gone/kernel" in caplog.text


def test_every_copy_of_a_layer_taken_apart_is_regularized():
    inputs = tf_keras.Input((2,))
    copies = [
        tf_keras.layers.Dense(2, kernel_initializer="ones", name=f"a_level_{level}")(inputs)
        for level in (0, 1)
    ]
    network = tf_keras.Model(inputs, copies)
    found = regularized_variables(network, {"a/kernel": REGULARIZERS["a/kernel"]})
    assert [variable.name for variable, _ in found] == ["a_level_0/kernel:0", "a_level_1/kernel:0"]
    np.testing.assert_allclose(regularization_loss(found), 2 * 0.5 * 0.5 * 4.0)


def test_no_regularizer_is_zero():
    assert float(regularization_loss([])) == 0.0
