"""Steps as the tasks of Kubeflow Pipelines 3 tell of them, and their logs."""

import datetime

import pytest

from pipeline.kubeflow import runs
from pipeline.kubeflow.api_errors import ClusterError
from pipeline.kubeflow.run_tasks import read_tasks, task_states
from pipeline.kubeflow.step_log import step_log
from pipeline.kubeflow.step_state import Ending
from tests.pipeline.kubeflow.argo_model import BEGIN, Step, Workflow, listed, steps_of
from tests.pipeline.kubeflow.clients import connect, start
from tests.pipeline.kubeflow.task_model import MESSAGES, tasks_of
from tests.support.cases import cases, refused

_GOES_ON, _ENDED = Ending(ended=False, cancelled=None), Ending(ended=True, cancelled=None)
_FAILED = Ending(ended=True, cancelled=None, failed=True)
_STOPPED = Ending(ended=True, cancelled=BEGIN + datetime.timedelta(minutes=2))


def _tasks(steps, phase, *, retried=True):
    workflow = Workflow("wf-1", retried=retried).run(steps, phase)
    return tasks_of("a-run", "digits", workflow, steps, phase)


def _shown(found, ending, trees):
    return listed(task_states(found, trees, ending))


@cases(
    ("a:Cached b c:Cached", "Succeeded", _ENDED, "a cached, b succeeded, c cached"),
    ("a:Waiting b:Running", "Running", _GOES_ON, "a running, b running, c pending"),
    ("a:Waiting b:Running", "Running", _ENDED, "a unknown, b unknown"),
    ("a b:Unscheduled", "Running", _GOES_ON, "a succeeded, b pending"),
    ("a:Failed b:Omitted c:Omitted", "Failed", _FAILED, "a failed, b not run, c not run, d not run"),
    ("a:Skipped b:Unprepared", "Failed", _FAILED, "a skipped, b failed"),
    # A container that is killed tells nothing: its task runs for ever.
    ("a b:Killed", "Failed", _GOES_ON, "a succeeded, b running, c pending"),
    ("a b:Killed", "Failed", _FAILED, "a succeeded, b failed, c not run"),
    ("a b:Failed c:Failed d:Killed", "Failed", _STOPPED, "a succeeded, b failed, c cancelled, d cancelled"),
)
def test_states_are_those_of_tasks_corrected_by_the_end_of_the_run(*, steps, phase, ending, shown):
    trees = {part.split()[0]: {} for part in shown.split(", ")}
    for retried in (True, False):
        found = _tasks(steps_of(steps), phase, retried=retried)
        assert _shown(found, ending, trees) == shown
        assert _shown(found[::-1], ending, trees) == shown  # the server sorts by id
        for step in task_states(found, trees, ending):
            ran = step.state in ("succeeded", "failed", "cancelled") and "without a report" not in step.error
            assert step.state == "cancelled" or step.seconds == (30.0 if ran else None), step


def test_an_attempt_that_failed_leaves_its_task_failed_until_the_next_one_ends():
    for phase, state, attempts in (("Running", "failed", 1), ("Succeeded", "succeeded", 2)):
        found = _tasks([Step(name="a", phase=phase, failed_attempts=1)], phase)
        [step] = task_states(found, {"a": {}}, _GOES_ON)
        assert (step.state, step.attempts) == (state, attempts)


def test_steps_of_a_condition_a_loop_and_an_inner_pipeline_are_listed_under_it():
    probe, last = Step(name="probe", begin=1), Step(name="probe-2", phase="Failed", begin=2)
    nested = Step(name="condition-2", inside=[last], phase="Failed", begin=2)
    steps = [
        Step(name="condition-1", inside=[probe, nested]),
        Step(name="condition-3", phase="Skipped", begin=3),
        Step(name="for-loop-1", items=[[probe], [last]], begin=4),
    ]
    trees = {
        "condition-1": {"probe": {}, "condition-2": {"probe-2": {}, "probe-3": {}}},
        "condition-3": {"probe": {}},
        "for-loop-1": {"probe": {}, "probe-2": {}},
    }
    found = _tasks(steps, "Failed")
    names = [(s.name, s.state) for s in task_states(found, trees, _FAILED)]
    assert names == [
        ("condition-1", "succeeded"),
        ("condition-1/probe", "succeeded"),
        ("condition-1/condition-2", "failed"),
        ("condition-1/condition-2/probe-2", "failed"),
        ("condition-1/condition-2/probe-3", "not run"),
        ("condition-3", "skipped"),
        ("for-loop-1", "succeeded"),
        ("for-loop-1/iteration-0/probe", "succeeded"),
        ("for-loop-1/iteration-1/probe-2", "failed"),
    ]


def test_pods_are_those_of_the_tasks_and_are_guessed_while_the_server_has_none():
    group = Step(name="exit-handler-1", inside=[Step(name="b", phase="Running")])
    for retried in (True, False):
        steps = [
            Step(name="a", failed_attempts=1, failed_drivers=1),
            group,
            *steps_of("c:Unprepared d:Killed"),
        ]
        workflow = Workflow("wf-1", retried=retried).run(steps, "Failed")
        found = {
            s.name: s
            for s in task_states(tasks_of("a-run", "digits", workflow, steps, "Failed"), {}, _FAILED)
        }
        assert {s.workflow for s in found.values()} == {"wf-1"}
        mine = [workflow.node_of("a", attempt=-1 - i) for i in range(1 + retried)]
        assert found["a"].pods == tuple(n for m in mine for n in (workflow.id(m), workflow.pods()[m]))
        assert found["a"].attempts == 1 + retried
        node = workflow.node_of("b")
        assert {workflow.id(node), workflow.pods()[node]} <= set(found["exit-handler-1/b"].pods)
        node = workflow.node_of("c", driver=True)
        assert found["c"].driver and found["c"].pods == (workflow.id(node), workflow.pods()[node])
        assert found["c"].error == MESSAGES["Unprepared"]
        assert workflow.id(workflow.node_of("d")) in found["d"].pods and not found["d"].driver
        assert "out of memory" in found["d"].error


@pytest.mark.parametrize("server", ["3.0.0"], indirect=True)
def test_the_log_of_a_step_is_found_while_it_runs_and_after(server, connection, run_id):
    server.state.multi_user = True
    for last in (False, True):
        while (state := runs.read_run(connection, run_id)).steps[-1].state != "running" and not state.ended:
            pass
        if last:
            server.pods_gone = True
        server.write_log(run_id, "trainer", "step 1\nstep 2")
        assert step_log(connection, run_id, state.steps[-1]) == "step 1\nstep 2"
        state = runs.read_run(connection, run_id)


@pytest.mark.parametrize("server", ["3.0.0"], indirect=True)
def test_tasks_are_read_page_by_page_and_from_no_older_server(server, connection, run_id):
    while not runs.read_run(connection, run_id).ended:
        pass
    whole = read_tasks(connection, run_id)
    assert [t["name"] for t in whole if t["type"] == "ROOT"] == ["ROOT"] and len(whole) == 4
    server.state.page = 1
    before = server.count("GET .*/tasks")
    assert read_tasks(connection, run_id) == whole
    assert server.count("GET .*/tasks") == before + 4
    assert read_tasks(connection, "nope") == []
    server.misbehave("GET .*/tasks", "html")
    refused(ClusterError, "expected a run's tasks, found a page", read_tasks, connection, run_id)
    server.misbehave("GET .*/tasks", 403)
    refused(ClusterError, "403", read_tasks, connection, run_id)
    # A server that does not tell its version is asked, a known older one is not.
    server.state.keeps_tasks, before = False, server.count("GET .*/tasks")
    for version, asked in (("master", 1), ("2.17.0", 0), ("2.18.0", 0)):
        server.version = version
        assert read_tasks(connect(server), run_id) == []
        assert server.count("GET .*/tasks") == before + asked
        before += asked


@pytest.mark.parametrize("server", ["3.0.0"], indirect=True)
def test_a_run_that_is_listed_costs_no_request_of_its_own(server, connection, package_path):
    start(connection, package_path)
    before = len(server.requests)
    assert [run.state for run in runs.list_runs(connection, 20)] == ["pending"]
    assert len(server.requests) == before + 1
