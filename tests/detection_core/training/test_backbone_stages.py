"""The depth of a backbone's layers, by which their learning rates differ and the first of them are frozen."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from detection_core.errors import ConfigError
from detection_core.training.backbone_stages import backbone_stages, rate_factors, scaled_updates
from detection_core.training.loop_options import TrainOptions
from detection_core.training.variables import trained_variables
from tests.support.cases import cases

LEGACY = tf_keras.optimizers.legacy
OPTIMIZERS = {
    "sgd": lambda rate: LEGACY.SGD(rate, momentum=0.9),
    "rmsprop": lambda rate: LEGACY.RMSprop(rate, momentum=0.9),
    "adam": LEGACY.Adam,
}


def _network():
    layers = tf_keras.layers
    inputs = tf_keras.Input([32, 32, 3])
    x = layers.Conv2D(2, 3, strides=2, padding="same", name="backbone_stem")(inputs)
    x = layers.BatchNormalization(name="backbone_stem_bn")(x)
    x = layers.Conv2D(2, 3, strides=2, padding="same", name="backbone_block_1_expand")(x)
    squeezed = layers.GlobalAveragePooling2D(keepdims=True, name="backbone_block_1_mean")(x)
    squeezed = layers.Conv2D(2, 1, name="backbone_block_1_squeeze")(squeezed)
    x = layers.Multiply(name="backbone_block_1_scale")([x, squeezed])
    x = layers.Conv2D(2, 3, strides=2, padding="same", name="backbone_block_2_project")(x)
    x = layers.Conv2D(2, 1, name="fpn_lateral_3")(x)
    return tf_keras.Model(inputs, x)


def test_rates_fall_towards_the_image_by_stages():
    stages = backbone_stages([_network()])
    assert {name.split("/")[0]: stage for name, stage in stages.items()} == {
        "backbone_stem": 1,
        "backbone_stem_bn": 1,
        "backbone_block_1_expand": 2,
        "backbone_block_1_squeeze": 2,
        "backbone_block_2_project": 3,
    }
    network = _network()
    factors = rate_factors(network.trainable_variables, backbone_stages([network]), 0.5)
    by_layer = {v.name.split("/")[0]: f for v, f in zip(network.trainable_variables, factors, strict=True)}
    assert by_layer == {
        "backbone_stem": 0.125,
        "backbone_stem_bn": 0.125,
        "backbone_block_1_expand": 0.25,
        "backbone_block_1_squeeze": 0.25,
        "backbone_block_2_project": 0.5,
        "fpn_lateral_3": 1.0,
    }


@cases((0, "backbone_stem"), (1, "backbone_block_1"), (3, "fpn_lateral_3"))
def test_the_first_stages_are_frozen(*, count, first):
    network = _network()
    options = TrainOptions(num_steps=1, freeze_backbone_stages=count)
    trained = trained_variables(network.trainable_variables, options, [network])
    assert trained[0].name.startswith(first)
    assert trained == network.trainable_variables[-len(trained) :]


def test_frozen_to_the_end_is_refused_and_replicas_scale_together():
    network = _network()
    options = TrainOptions(num_steps=1, freeze_backbone_stages=5, freeze_variables=("fpn",))
    with pytest.raises(ConfigError, match="freeze_backbone_stages"):
        trained_variables(network.trainable_variables, options, [network])
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
    with strategy.scope():
        variable, optimizer = tf.Variable(1.0), LEGACY.SGD(0.1)

    def update():
        with scaled_updates([variable], (0.5,)):
            optimizer.apply_gradients([(tf.constant(2.0), variable)])

    strategy.run(tf.function(update))
    assert float(variable.numpy()) == pytest.approx(0.9)


@cases(*OPTIMIZERS)
def test_a_scaled_update_is_that_of_a_scaled_learning_rate(*, name):
    scaled = [tf.Variable([1.0, -2.0]), tf.Variable([3.0])]
    alone = [tf.Variable([1.0, -2.0]), tf.Variable([3.0])]
    optimizer = OPTIMIZERS[name](0.1)
    own = [OPTIMIZERS[name](0.1 * 0.25), OPTIMIZERS[name](0.1)]

    @tf.function
    def update(step):
        gradients = [tf.stack([step, 2.0]), [step - 1.5]]
        with scaled_updates(scaled, (0.25, 1.0)):
            optimizer.apply_gradients(zip(gradients, scaled, strict=True))
        for one, gradient, variable in zip(own, gradients, alone, strict=True):
            one.apply_gradients([(gradient, variable)])

    for step in range(5):
        update(tf.constant(float(step)))
        for expected, found in zip(alone, scaled, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert float(tf.reduce_max(tf.abs(scaled[0] - [1.0, -2.0]))) > 0.01
