"""Options check their numbers."""

import pytest

from detection_core.training.loop_options import TrainOptions


def test_counts_are_at_least_one_and_times_zero():
    for name in ("num_steps", "log_every", "checkpoint_every", "steps_per_call"):
        assert getattr(TrainOptions(**({"num_steps": 1} | {name: 1})), name) == 1
        with pytest.raises(ValueError, match=f"{name} must be at least 1, found 0"):
            TrainOptions(**({"num_steps": 1} | {name: 0}))
    assert TrainOptions(num_steps=1, checkpoint_minutes=0.0).checkpoint_minutes == 0.0
    with pytest.raises(ValueError, match="checkpoint_minutes must be 0 or more"):
        TrainOptions(num_steps=1, checkpoint_minutes=-1.0)
