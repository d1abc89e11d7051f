"""Schedules by hand-worked numbers; the published goldens are in tests/detection_core/config/automl."""

from __future__ import annotations

import numpy as np
import pytest

from detection_core.optimizers import automl_schedules as automl
from detection_core.optimizers.schedules import Schedule
from tests.support.cases import cases

WARMUP = automl.WarmupOptions(learning_rate=1.0, warmup_learning_rate=0.2, warmup_steps=4)


def rates(schedule: Schedule, steps: list[int]) -> list[float]:
    return [float(schedule(step)) for step in steps]


def test_cosine_drops_behind_its_warmup_and_rises_at_the_end() -> None:
    schedule = automl.AutomlCosine(automl.AutomlCosineOptions(warmup=WARMUP, total_steps=16))
    assert rates(schedule, [0, 2, 4, 6, 12, 15]) == pytest.approx(
        [0.2, 0.6, 0.75, 0.5, 0.0, 0.5 - 0.5 * 2**-0.5], abs=1e-6
    )


def test_polynomial_ends_at_zero_and_stays_there() -> None:
    schedule = automl.AutomlPolynomial(
        automl.AutomlPolynomialOptions(warmup=WARMUP, total_steps=8, power=2.0)
    )
    assert rates(schedule, [2, 4, 6, 8, 9]) == pytest.approx([0.6, 0.25, 0.0625, 0.0, 0.0])


def test_stepwise_drops_twice() -> None:
    options = automl.AutomlStepwiseOptions(warmup=WARMUP, first_drop_step=6, second_drop_step=9)
    assert rates(automl.AutomlStepwise(options), [3, 4, 5, 6, 8, 9]) == pytest.approx(
        [0.8, 1.0, 1.0, 0.1, 0.1, 0.01]
    )


@cases(2, 4)
def test_a_training_may_end_in_its_warmup(*, total_steps: int) -> None:
    schedule = automl.AutomlCosine(automl.AutomlCosineOptions(warmup=WARMUP, total_steps=total_steps))
    assert rates(schedule, [0, 1, 2, 3]) == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert np.isfinite(rates(schedule, [4, 5])).all()


def test_a_drop_ends_the_warmup() -> None:
    options = automl.AutomlStepwiseOptions(warmup=WARMUP, first_drop_step=2, second_drop_step=3)
    assert rates(automl.AutomlStepwise(options), [1, 2, 3]) == pytest.approx([0.4, 0.1, 0.01])
