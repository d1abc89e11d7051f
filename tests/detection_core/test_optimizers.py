"""Schedules by hand-worked numbers and moving averages by a loop; goldens are in builders and config."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from detection_core.optimizers import optimization as rates
from detection_core.optimizers.optimization import MovingAverage, Optimization
from tests.support.cases import cases, refused

WARMUP = {"learning_rate": 1.0, "warmup_learning_rate": 0.2, "warmup_steps": 4}
MANUAL = {"initial_learning_rate": 0.0, "boundaries": (4, 8), "learning_rates": (1.0, 0.1)}
COSINE = {"learning_rate_base": 1.0, "total_steps": 20, "warmup_learning_rate": 0.2, "warmup_steps": 4}
COSINE_RATES = {0: 0.2, 2: 0.6, 4: 1.0, 10: 1.0, 15: 0.5, 20: 0.0, 21: 0.0}
SHORT = {"learning_rate_base": 0.4, "total_steps": 4}
EXPONENTIAL = {"initial_learning_rate": 1.0, "decay_steps": 10, "decay_factor": 0.5}
EXPONENTIAL |= {"burnin_learning_rate": 0.1, "burnin_steps": 5}


def _drops(first, second):
    return WARMUP | {"first_drop_step": first, "second_drop_step": second}


@cases(
    # A drop behind the warm-up, and a rise at the end.
    (rates.AutomlCosine, {**WARMUP, "total_steps": 16},
     {0: 0.2, 2: 0.6, 4: 0.75, 6: 0.5, 12: 0.0, 15: 0.5 - 0.5 * 2**-0.5}),
    # A training may end in its warm-up.
    (rates.AutomlCosine, {**WARMUP, "total_steps": 2}, {0: 0.2, 1: 0.4, 2: 0.6, 3: 0.8}),
    (rates.AutomlCosine, {**WARMUP, "total_steps": 4}, {0: 0.2, 1: 0.4, 2: 0.6, 3: 0.8}),
    (rates.AutomlPolynomial, {**WARMUP, "total_steps": 8, "power": 2.0},
     {2: 0.6, 4: 0.25, 6: 0.0625, 8: 0.0, 9: 0.0}),
    (rates.AutomlStepwise, _drops(6, 9), {3: 0.8, 4: 1.0, 5: 1.0, 6: 0.1, 8: 0.1, 9: 0.01}),
    (rates.AutomlStepwise, _drops(2, 3), {1: 0.4, 2: 0.1, 3: 0.01}),  # a drop ends the warm-up
    (rates.CosineDecay, COSINE | {"hold_base_rate_steps": 6}, COSINE_RATES),
    (rates.CosineDecay, SHORT | {"total_steps": 10}, {0: 0.4, 5: 0.2, 10: 0.0}),
    # The warm-up is the whole of it.
    (rates.CosineDecay, SHORT | {"warmup_steps": 4}, {0: 0.0, 2: 0.2, 4: 0.4, 5: 0.0}),
    # Stairs behind a burn-in.
    (rates.ExponentialDecay, EXPONENTIAL, {0: 0.1, 4: 0.1, 5: 1.0, 14: 1.0, 15: 0.5, 25: 0.25}),
    (rates.ManualStep, MANUAL, {0: 0.0, 2: 0.0, 3: 0.0, 4: 1.0, 7: 1.0, 8: 0.1}),
    (rates.ManualStep, MANUAL | {"warmup": True}, {0: 0.0, 2: 0.5, 3: 0.75, 4: 1.0, 7: 1.0, 8: 0.1}),
)  # fmt: skip
def test_hand_worked_rates(*, kind, options, expected):
    schedule = kind(**options)
    assert [float(schedule(step)) for step in expected] == pytest.approx(list(expected.values()), abs=1e-6)
    assert np.isfinite([float(schedule(step)) for step in (4, 5)]).all()


@cases(
    (rates.CosineDecay, {"learning_rate_base": 1, "total_steps": 3, "warmup_steps": 4}, "warm-up"),
    (rates.CosineDecay, COSINE | {"learning_rate_base": 0.1}, "warm-up climbs"),
    (rates.ManualStep, MANUAL | {"boundaries": (), "learning_rates": ()}, "at least one step"),
    (rates.ManualStep, MANUAL | {"boundaries": (0,), "learning_rates": (1,)}, "above 0"),
    (rates.ManualStep, MANUAL | {"boundaries": (5, 5), "learning_rates": (1, 2)}, "strictly rise"),
)
def test_numbers_that_contradict_each_other_are_refused(*, kind, options, text):
    refused(ValueError, text, kind, **options)


def test_averages_follow_the_dynamic_decay_from_zero_and_are_swapped_in_for_a_block():
    weights = tf.Variable([1.0, -2.0])
    average = MovingAverage([weights], decay=0.3)
    expected = np.zeros(2)
    for t, value in enumerate(([1.0, -2.0], [3.0, 0.5], [0.25, 4.0], [1.0, 1.0]), start=1):
        weights.assign(value)
        average.update(tf.constant(t, tf.int64))
        decay = min(0.3, (1 + t) / (10 + t))
        expected = decay * expected + (1 - decay) * np.array(value)
        np.testing.assert_allclose(average.averages[0], expected, rtol=1e-5, atol=1e-6)
    weights = tf.Variable([2.0])
    average = MovingAverage([weights], decay=0.5)
    average.update(tf.constant(1, tf.int64))
    with pytest.raises(RuntimeError), average.swapped_in():
        assert float(weights[0]) == pytest.approx(2.0 * (1 - 2 / 11))
        raise RuntimeError
    assert float(weights[0]) == 2.0, "even after an error"
    with pytest.raises(ValueError, match=r"\[0, 1\)"):
        MovingAverage([weights], decay=1.0)  # would never move


def test_the_rate_of_the_next_update_is_what_the_optimizer_makes_of_the_schedule():
    rate = rates.ManualStep(initial_learning_rate=0.5, boundaries=[2], learning_rates=[0.25])
    optimizer = tf_keras.optimizers.legacy.SGD(rate)
    next_update = Optimization(optimizer=optimizer)
    told = []
    for step in range(4):
        optimizer.iterations.assign(step)
        told.append(float(next_update.learning_rate()))
    assert told == [0.5, 0.5, 0.25, 0.25]
    optimizer = tf_keras.optimizers.legacy.Adam(0.1, decay=1.0)
    optimizer.iterations.assign(1)
    np.testing.assert_allclose(Optimization(optimizer=optimizer).learning_rate(), 0.05)
    # No average is kept unless it is asked for.
    assert next_update.average_decay == 0.0
    with pytest.raises(AttributeError):
        next_update.average_decay = 0.9
