"""The trace of some updates: where it lies, what is in it, and that training goes on without one."""

import logging
import math

import tensorflow as tf

from detection_core.training.profiling import ProfileOptions, ProfilerTrace
from tests.detection_core.training.runs import whole_run


def train(folder, first=2, steps=2, num_steps=5):
    """Train, or go on, with a trace of some updates; return the traces that are there."""
    trace = ProfilerTrace(ProfileOptions(first_step=first, steps=steps), str(folder / "logs"))
    whole_run(folder, None, trace, num_steps=num_steps, log_every=10, steps_per_call=4)
    return sorted((folder / "logs").glob("plugins/profile/*/*.xplane.pb"))


def test_a_trace_has_the_operations_of_the_updates_asked_for(tmp_path):
    (trace,) = train(tmp_path)
    content = trace.read_bytes()
    assert b"Conv2DBackpropFilter" in content and b"train" in content
    assert train(tmp_path, num_steps=7) == [trace]  # gone on with behind the span


def test_a_training_that_ends_inside_of_the_span_has_what_there_is(tmp_path):
    assert len(train(tmp_path, first=1, steps=50, num_steps=2)) == 1
    trace = ProfilerTrace(ProfileOptions(first_step=3, steps=4), str(tmp_path))
    assert [trace.steps_until_due(step) for step in (0, 2, 3, 6, 7)] == [3, 1, 4, 1, math.inf]


def test_a_profiler_that_is_busy_costs_the_training_nothing(tmp_path, caplog):
    tf.profiler.experimental.start(str(tmp_path / "other"))
    try:
        with caplog.at_level(logging.WARNING):
            assert not train(tmp_path, first=0)
    finally:
        tf.profiler.experimental.stop(save=False)
    assert caplog.text.count("the profiler does not start, and nothing is traced") == 1
