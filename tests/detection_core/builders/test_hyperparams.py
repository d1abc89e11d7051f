import functools
import importlib

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from detection_core.builders.hyperparams import build_hyperparams
from detection_core.config.messages.hyperparams import INITIALIZER_NAMES
from detection_core.detectors.parts.layers import layer_hyperparams as layers
from detection_core.protos import hyperparams_pb2
from tests.support.cases import cases, config_refused
from tests.support.configs import parsed
from tests.support.golden_cases import load_cases

CASES = load_cases(__file__, "hyperparams")
# Settings that the reference passes over in silence and that are refused here.
REFUSED = {"group_norm": "no detector here is made with", "op_fc": "op: expected CONV, found FC"}
_message = functools.partial(parsed, hyperparams_pb2.Hyperparams)


@cases(*sorted(set(CASES) - set(REFUSED)))
def test_settings_are_those_of_the_reference(*, name):
    wanted = CASES[name].facts["value"]
    found = build_hyperparams(_message(CASES[name].config), "conv_hyperparams")
    assert found.activation == (wanted["activation"] or "none")
    assert (found.use_bias, found.force_use_bias) == (wanted["use_bias"], wanted["force_use_bias"])
    assert (found.batch_norm is not None) == wanted["use_batch_norm"]
    if found.batch_norm is not None:
        assert found.batch_norm.synchronized == wanted["use_sync_batch_norm"]
    for field, value in wanted["batch_norm_params"].items():
        assert getattr(found.batch_norm, field) == pytest.approx(value)
    assert (found.regularizer is None) == (wanted["regularizer"] is None)
    if found.regularizer is not None:
        # The reference's factor is of the plain sum of squares, the config's weight of half of it.
        total = {"L1": 4.0, "L2": 10.0}[wanted["regularizer"]["class_name"]] * wanted["regularizer_weight"]
        weights = tf.constant([1.0, -3.0])
        np.testing.assert_allclose(layers.regularizer_loss(found.regularizer, weights), total, rtol=1e-5)
    _check_initializer(found.initializer.build(0, "layer/kernel"), wanted["initializer"])


def _check_initializer(built, wanted):
    if not isinstance(wanted, dict):
        assert type(built) is type(tf_keras.initializers.get(wanted))
        return
    name = wanted["class_name"]
    assert type(built).__name__ == ("GlorotUniform" if name == "NoneType" else name)
    settings = {key: value for key, value in wanted.items() if key not in ("class_name", "seed", "dtype")}
    assert {key: built.get_config()[key] for key in settings} == pytest.approx(settings)


def test_what_has_no_effect_is_refused_and_frozen_norms_are_built():
    for name, message in REFUSED.items():
        config_refused(message, build_hyperparams, _message(CASES[name].config), "conv_hyperparams")
    text = "batch_norm { train: false decay: 0.5 } regularizer { l1_regularizer { weight: 2 } }"
    found = build_hyperparams(_message(text), "x")
    assert found.batch_norm == layers.BatchNormOptions(
        momentum=0.5, epsilon=pytest.approx(0.001), train=False
    )
    assert found.regularizer == layers.Regularizer(kind="l1", weight=2.0)


def test_the_check_knows_the_initializers_of_tf_keras_that_fill_a_kernel():
    registry = importlib.import_module("tf_keras.src.initializers")
    registry.populate_deserializable_objects()
    fit = set()
    for name in registry.LOCAL.ALL_OBJECTS:
        try:
            type(tf_keras.initializers.get(name))()((3, 3, 2, 4))
            fit.add(name)
        except (ValueError, NotImplementedError):
            continue
    assert fit == INITIALIZER_NAMES
