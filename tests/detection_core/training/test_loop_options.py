"""Options check their numbers."""

import pytest

from detection_core.training.loop_options import TrainOptions
from tests.support.cases import cases


@cases("num_steps", "log_every", "checkpoint_every", "steps_per_call")
def test_counts_are_at_least_one(*, name):
    with pytest.raises(ValueError, match=f"{name} must be at least 1, found 0"):
        TrainOptions(**({"num_steps": 1} | {name: 0}))
