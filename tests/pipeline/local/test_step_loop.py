"""The loop over the steps of a run, without a backend."""

import pytest

from pipeline.local.step_loop import Execution, given_parameters, run_steps
from pipeline.steps import Dag, FromCheck, FromResult, Step, StepStatus


def _step(step_id, **parameters):
    return Step(id=step_id, component="c", parameters=parameters, inputs={})


DAG = Dag(
    name="small",
    steps=(_step("a", data=FromCheck("found"), size=1), _step("b", grade=FromResult("a", "grade"), size=2)),
)


def _run(executions):
    """Run the steps with these ends, or errors; return what was taken from results, and what was seen."""
    taken, seen, ends = [], [], iter(executions)

    def execute(step, results):
        taken.append((step.id, dict(results)))
        assert seen[-1].state == "running" and seen[-1].id == step.id, "it is reported before it begins"
        end = next(ends)
        if isinstance(end, BaseException):
            raise end
        return end

    try:
        run_steps(DAG, execute, seen.append)
    except BaseException as error:
        return taken, seen, error
    return taken, seen, None


def test_a_step_gets_the_results_of_earlier_ones_and_its_begin_and_end_are_reported():
    first = Execution(state=StepStatus.CACHED, outputs={"model": "/m"}, results={"grade": 5, "more": 1})
    second = Execution(state=StepStatus.EXECUTED, outputs={}, results={})
    taken, seen, error = _run([first, second])
    assert error is None and taken == [("a", {}), ("b", {"grade": 5})]
    assert [(s.id, s.state) for s in seen] == [
        ("a", "running"), ("a", "cached"), ("b", "running"), ("b", "executed"),
    ]  # fmt: skip
    assert [s.outputs for s in seen] == [{}, {"model": "/m"}, {}, {}]
    assert not seen[0].peak_memory_bytes and seen[1].peak_memory_bytes > 1 << 20
    assert seen[0].started == seen[1].started and seen[1].seconds >= seen[0].seconds >= 0


@pytest.mark.parametrize(
    ("raised", "state"),
    [(ValueError("no"), "failed"), (KeyboardInterrupt(), "not run"), (SystemExit(143), "not run")],
)
def test_a_failed_or_interrupted_step_is_reported_and_ends_the_run(raised, state):
    taken, seen, error = _run([raised])
    assert error is raised and len(taken) == 1
    assert [(s.id, s.state) for s in seen] == [("a", "running"), ("a", state)]
    assert seen[-1].error == f"{type(raised).__name__}: {raised}"


def test_parameters_known_before_the_run():
    first, second = DAG.steps
    assert given_parameters(first, {"found": "d"}) == {"data": "d", "size": 1}
    assert given_parameters(second, {}) == {"size": 2}
