"""Schedules by hand-worked numbers; the published goldens are in tests/detection_core/builders."""

from __future__ import annotations

import pytest

from detection_core.optimizers import schedules
from tests.support.cases import cases


def rates(schedule: schedules.Schedule, steps: list[int]) -> list[float]:
    return [float(schedule(step)) for step in steps]


def test_cosine_climbs_holds_and_falls_to_zero() -> None:
    options = schedules.CosineDecayOptions(
        learning_rate_base=1.0,
        total_steps=20,
        warmup_learning_rate=0.2,
        warmup_steps=4,
        hold_base_rate_steps=6,
    )
    found = rates(schedules.CosineDecay(options), [0, 2, 4, 10, 15, 20, 21])
    assert found == pytest.approx([0.2, 0.6, 1.0, 1.0, 0.5, 0.0, 0.0], abs=1e-6)


def test_cosine_without_warmup_starts_at_its_base() -> None:
    options = schedules.CosineDecayOptions(learning_rate_base=0.4, total_steps=10)
    assert rates(schedules.CosineDecay(options), [0, 5, 10]) == pytest.approx([0.4, 0.2, 0.0], abs=1e-7)


def test_cosine_whose_warmup_is_the_whole_of_it_is_finite() -> None:
    options = schedules.CosineDecayOptions(learning_rate_base=0.4, total_steps=4, warmup_steps=4)
    assert rates(schedules.CosineDecay(options), [0, 2, 4, 5]) == pytest.approx(
        [0.0, 0.2, 0.4, 0.0], abs=1e-7
    )


def test_exponential_decays_in_stairs_after_its_burnin() -> None:
    options = schedules.ExponentialDecayOptions(
        initial_learning_rate=1.0, decay_steps=10, decay_factor=0.5, burnin_learning_rate=0.1, burnin_steps=5
    )
    assert rates(schedules.ExponentialDecay(options), [0, 4, 5, 14, 15, 25]) == pytest.approx(
        [0.1, 0.1, 1.0, 1.0, 0.5, 0.25]
    )


def test_manual_changes_at_its_boundaries_and_may_climb_to_the_first() -> None:
    options = {"initial_learning_rate": 0.0, "boundaries": (4, 8), "learning_rates": (1.0, 0.1)}
    steps = [0, 2, 3, 4, 7, 8]
    jump = schedules.ManualStep(schedules.ManualStepOptions(**options))
    assert rates(jump, steps) == pytest.approx([0.0, 0.0, 0.0, 1.0, 1.0, 0.1])
    climb = schedules.ManualStep(schedules.ManualStepOptions(**options, warmup=True))
    assert rates(climb, steps) == pytest.approx([0.0, 0.5, 0.75, 1.0, 1.0, 0.1])


@cases(
    (
        lambda: schedules.CosineDecayOptions(learning_rate_base=1, total_steps=3, warmup_steps=4),
        "warm-up",
    ),
    (
        lambda: schedules.CosineDecayOptions(
            learning_rate_base=0.1, total_steps=9, warmup_steps=4, warmup_learning_rate=0.2
        ),
        "warm-up climbs",
    ),
    (
        lambda: schedules.ManualStepOptions(initial_learning_rate=1, boundaries=(), learning_rates=()),
        "at least one step",
    ),
    (
        lambda: schedules.ManualStepOptions(initial_learning_rate=1, boundaries=(0,), learning_rates=(1,)),
        "above 0",
    ),
    (
        lambda: schedules.ManualStepOptions(
            initial_learning_rate=1, boundaries=(5, 5), learning_rates=(1, 2)
        ),
        "strictly rise",
    ),
    (
        lambda: schedules.ExponentialDecayOptions(initial_learning_rate=1, decay_steps=0, decay_factor=0.5),
        "decay_steps",
    ),
)
def test_numbers_that_contradict_each_other_are_refused(*, make: object, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make()  # type: ignore[operator]
