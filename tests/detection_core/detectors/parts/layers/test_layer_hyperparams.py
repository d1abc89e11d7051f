import numpy as np
import tensorflow as tf

from detection_core.detectors.parts.layers.layer_hyperparams import (
    BatchNormOptions,
    InitializerOptions,
    LayerHyperparams,
    Regularizer,
    regularizer_loss,
)
from tests.support.cases import cases


@cases(("l2", 0.5 * (0.5 * (1 + 4 + 9))), ("l1", 0.5 * 6.0))
def test_regularizer_of_weights(*, kind, wanted):
    found = regularizer_loss(Regularizer(kind=kind, weight=0.5), tf.constant([1.0, -2.0, 3.0]))
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_first_weights_follow_from_seed_and_name():
    options = InitializerOptions(class_name="RandomNormal", arguments={"mean": 1.0, "stddev": 0.01})
    first = options.build(0, "a/kernel")((3, 3))
    np.testing.assert_array_equal(first, options.build(0, "a/kernel")((3, 3)))
    assert not np.allclose(first, options.build(0, "b/kernel")((3, 3)), atol=1e-4)
    assert not np.allclose(first, options.build(1, "a/kernel")((3, 3)), atol=1e-4)
    np.testing.assert_allclose(np.mean(first), 1.0, atol=0.02)


def test_initializer_without_a_seed_is_built_too():
    np.testing.assert_array_equal(InitializerOptions(class_name="Zeros").build(3, "a")((2,)), [0.0, 0.0])


@cases(
    (None, False, True),
    (BatchNormOptions(), False, False),
    (BatchNormOptions(center=False), False, True),
    (BatchNormOptions(), True, True),
)
def test_a_bias_is_left_out_where_the_normalisation_has_an_offset(*, batch_norm, force, wanted):
    assert LayerHyperparams(batch_norm=batch_norm, force_use_bias=force).use_bias is wanted
