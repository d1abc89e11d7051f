"""Optimizers and learning rates against the published goldens."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from detection_core.builders.optimizer import build_learning_rate, build_optimizer
from detection_core.optimizers.moving_average import MovingAverage
from detection_core.protos import optimizer_pb2
from tests.support.cases import cases, config_refused
from tests.support.configs import parsed

DATA = Path(__file__).parent / "data"
RATES = json.loads((DATA / "learning_rates.json").read_text())
CASES = json.loads((DATA / "optimizers.json").read_text())["cases"]
SLOTS = ("momentum", "rms", "m", "v")


@cases(*RATES["cases"])
def test_learning_rate(*, case):
    message = parsed(optimizer_pb2.LearningRate, case["config"])
    if case.get("error"):
        config_refused("", build_learning_rate, message)
        return
    schedule = build_learning_rate(message)
    found = [float(schedule(tf.constant(step, tf.int64))) for step in RATES["steps"]]
    np.testing.assert_allclose(found, case["learning_rate"], rtol=1e-5, atol=1e-9)


@cases(*CASES)
def test_optimizer(*, case):
    message = parsed(optimizer_pb2.Optimizer, case["config"])
    if case.get("error"):
        config_refused("", build_optimizer, message)
        return
    built = build_optimizer(message)
    variable = tf.Variable(tf.constant(case["initial"]))
    average = MovingAverage([variable], built.average_decay)
    assert bool(built.average_decay) == ("average" in case)
    values, averages = [], []
    for t, gradient in enumerate(np.reshape(case["gradients"], [5, 4]), start=1):
        built.optimizer.apply_gradients([(tf.constant(gradient, tf.float32), variable)])
        average.update(tf.constant(t, tf.int64))
        values.append(variable.numpy())
        averages.append(average.averages[0].numpy())
    np.testing.assert_allclose(values, np.reshape(case["variable"], [5, 4]), rtol=1e-5, atol=1e-6)
    if "average" in case:
        np.testing.assert_allclose(averages, np.reshape(case["average"], [5, 4]), rtol=1e-5, atol=1e-6)
    slots = [name for name in SLOTS if f"slot_{name}" in case]
    assert slots
    for name in slots:
        found = built.optimizer.get_slot(variable, name)
        np.testing.assert_allclose(found, case[f"slot_{name}"], rtol=1e-5, atol=1e-6, err_msg=name)


@cases(("", True), ("decay: 0", False))
def test_a_rate_that_falls_by_itself_is_told(caplog, *, decay, warned):
    rate = "learning_rate { constant_learning_rate { learning_rate: 0.1 } }"
    message = parsed(optimizer_pb2.Optimizer, f"rms_prop_optimizer {{ {rate} {decay} }}")
    built = build_optimizer(message)
    variable = tf.Variable([1.0])
    for _ in range(2):
        built.optimizer.apply_gradients([(tf.ones([1]), variable)])
    assert float(built.learning_rate()) == pytest.approx(0.1 / 2.8 if warned else 0.1)
    assert ("decay 0.9 divides the learning rate by 1 + 0.9 x updates" in caplog.text) == warned
