"""Hyper-parameters of the optimization, through the config that they become, against the goldens."""

import numpy as np
import pytest
import tensorflow as tf

from detection_core.builders.optimizer import build_learning_rate, build_optimizer
from detection_core.builders.train_options import build_train_options
from detection_core.config.automl.train_optimization import RunLength, fill_optimization
from detection_core.config.automl.typed_values import load_hyperparameters
from detection_core.config.check import check_message
from detection_core.optimizers.moving_average import MovingAverage
from detection_core.protos.train_pb2 import TrainConfig
from detection_core.training.step import shape_gradients
from tests.detection_core.config.automl.facts import load_facts
from tests.support.cases import cases, config_refused

RATES = [case for case in load_facts("learning_rates")["cases"] if "error" not in case]
OPTIMIZERS = load_facts("optimizers")["cases"]


def train_config(batch_size=64, steps_per_epoch=10, **hparams):
    train = TrainConfig()
    values = load_hyperparameters("efficientdet-d0", hparams).values
    fill_optimization(train, values, RunLength(batch_size=batch_size, steps_per_epoch=steps_per_epoch))
    return train


def rate_message(train):
    return getattr(train.optimizer, train.optimizer.WhichOneof("optimizer") or "").learning_rate


@cases(*RATES)
def test_golden_learning_rate(*, case):
    hparams = {key: value for key, value in case["overrides"].items() if key != "batch_size"}
    method = case["name"].split("_")[0]
    train = train_config(case["batch_size"], case["steps_per_epoch"], **hparams, lr_decay_method=method)
    check_message(train, "train_config")
    assert train.num_steps == case["fact"]["total_steps"]
    schedule = build_learning_rate(rate_message(train))
    found = schedule(tf.constant(case["steps"], tf.int64))
    np.testing.assert_allclose(found, case["learning_rate"], rtol=1e-5, atol=1e-9)
    config = schedule.get_config()
    assert config["warmup"]["warmup_steps"] == case["fact"]["lr_warmup_step"]
    assert config["warmup"]["learning_rate"] == pytest.approx(case["fact"]["adjusted_learning_rate"])
    if method == "stepwise":
        drops = config["first_drop_step"], config["second_drop_step"]
        assert drops == (case["fact"]["first_lr_drop_step"], case["fact"]["second_lr_drop_step"])


@cases(*(case for case in OPTIMIZERS if "initial" in case.get("inputs", {})))
def test_golden_updates(*, case):
    train = train_config(**case["params"])
    check_message(train, "train_config")
    built = build_optimizer(train.optimizer)
    variable, gradient = tf.Variable(case["inputs"]["initial"]), tf.constant(case["inputs"]["gradient"])
    averaged = "averages" in case["outputs"]
    assert bool(built.average_decay) == averaged == (case["fact"]["wrapper"] == "MovingAverage")
    average = MovingAverage([variable], built.average_decay, from_weights=built.average_from_weights)
    values, averages = [], []
    for updates in range(1, len(case["outputs"]["values"]) // 4 + 1):
        built.optimizer.apply_gradients([(gradient, variable)])
        average.update(tf.constant(updates, tf.int64))
        values.append(variable.numpy())
        averages.append(average.averages[0].numpy())
    np.testing.assert_allclose(np.ravel(values), case["outputs"]["values"], rtol=1e-5, atol=1e-7)
    if averaged:
        np.testing.assert_allclose(np.ravel(averages), case["outputs"]["averages"], rtol=1e-5, atol=1e-7)
    config = built.optimizer.get_config()
    for key, value in case["fact"]["config"].items():
        assert config[key] == pytest.approx(value), key


@cases(*(case for case in OPTIMIZERS if case["name"] in ("clip_10", "clip_1", "clip_100")))
def test_golden_clipping(*, case):
    options = build_train_options(train_config(**case["params"]))
    variables = [tf.Variable(tf.zeros([3, 4]), name=f"g{i}") for i in range(3)]
    gradients = [tf.reshape(case["inputs"][f"g{i}"], [3, 4]) for i in range(3)]
    shaped, _ = shape_gradients(gradients, variables, options)
    for i, gradient in enumerate(shaped):
        np.testing.assert_allclose(np.ravel(gradient), case["outputs"][f"g{i}"], rtol=1e-5, atol=1e-7)
    assert float(tf.linalg.global_norm(shaped)) == pytest.approx(case["outputs"]["gradient_norm_logged"][0])


def test_a_warmup_is_theirs_and_a_training_does_not_end_right_behind_it_and_may_not_clip():
    for limit in (0, -1, None):
        train = train_config(clip_gradients_norm=limit)
        assert train.gradient_clipping_by_norm == train.gradient_clipping_by_variable_norm == 0, limit
    message = rate_message(train_config(batch_size=4))
    assert message.automl_cosine_learning_rate.learning_rate == pytest.approx(0.005)
    assert float(build_learning_rate(message)(0)) == pytest.approx(0.008)
    train = train_config(num_epochs=1)
    check_message(train, "train_config")
    train.num_steps += 1
    message = r"automl_cosine_learning_rate\.warmup_steps: .*which is 10, found 10"
    config_refused(message, check_message, train, "train_config")
