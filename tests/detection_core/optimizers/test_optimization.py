import numpy as np
import pytest
import tf_keras

from detection_core.optimizers.optimization import Optimization
from detection_core.optimizers.schedules import ManualStep, ManualStepOptions


def test_the_rate_of_the_next_update_follows_the_schedule():
    options = ManualStepOptions(initial_learning_rate=0.5, boundaries=[2], learning_rates=[0.25])
    optimizer = tf_keras.optimizers.legacy.SGD(ManualStep(options))
    optimization = Optimization(optimizer=optimizer)
    rates = []
    for step in range(4):
        optimizer.iterations.assign(step)
        rates.append(float(optimization.learning_rate()))
    assert rates == [0.5, 0.5, 0.25, 0.25]


def test_the_rate_is_what_the_optimizer_makes_of_the_schedule():
    optimizer = tf_keras.optimizers.legacy.Adam(0.1, decay=1.0)
    optimizer.iterations.assign(1)
    np.testing.assert_allclose(Optimization(optimizer=optimizer).learning_rate(), 0.05)


def test_no_average_is_kept_unless_asked_for():
    optimization = Optimization(optimizer=tf_keras.optimizers.legacy.SGD(0.1))
    assert optimization.average_decay == 0.0
    with pytest.raises(AttributeError):
        optimization.average_decay = 0.9  # type: ignore[misc]
