import functools
import logging

import pytest

from detection_core.errors import ConfigError
from pipeline.kubeflow import runs
from pipeline.kubeflow.api_errors import ClusterError
from tests.pipeline.kubeflow.argo_model import Step
from tests.pipeline.kubeflow.clients import start
from tests.pipeline.kubeflow.kfp_server import VERSIONS
from tests.pipeline.kubeflow.task_model import MESSAGES
from tests.support.cases import refused

pytestmark = pytest.mark.parametrize("server", VERSIONS, indirect=True)

_STEPS = ("example-gen", "pusher", "trainer")


@pytest.fixture(autouse=True)
def changes_are_logged(caplog):
    caplog.set_level(logging.INFO)


def _wait(connection, run_id, **more):
    given = {"poll_seconds": 0, "limit_seconds": 0, "sleep": lambda _: None, **more}
    return runs.wait_for(connection, run_id, **given)


def _said(caplog, about="step |"):
    return [message for message in caplog.messages if message.startswith(about)]


def test_waiting_logs_every_change_of_a_step_once(connection, run_id, caplog):
    state = _wait(connection, run_id)
    assert (state.state, state.good, state.failure()) == ("succeeded", True, "")
    assert state.finished and state.link.endswith(f"/#/runs/details/{run_id}")
    said = [f"step | {name} {did}" for name in _STEPS for did in ("running", "succeeded in 30 s")]
    assert _said(caplog) == said


def test_the_step_that_failed_is_named(server, connection, package_path, subtests):
    unprepared = "failed: Kubeflow's driver could not prepare it"
    failed, unborn = ["failed", "not run", "not run"], ["failed", "not run", "not run", "not run"]
    root = f"step root {unprepared}"
    if server.state.keeps_tasks:
        unprepared = f"failed: {MESSAGES['Unprepared']}"
        root, unborn = "the run failed: no step says why; see the user interface", []
    for changes, failure, states in (
        ({"failing_step": "example-gen"}, "step example-gen failed: see its log", failed),
        ({"retried": False}, "step example-gen failed: see its log", failed),
        ({"failing_driver": True}, f"step example-gen {unprepared}", failed),
        ({"failing_root": True}, root, unborn),
    ):
        for name, value in changes.items():
            setattr(server.state, name, value)
        with subtests.test(**changes):
            state = _wait(connection, start(connection, package_path))
            assert state.failure() == failure
            assert state.failed_step is None or state.failed_step.name == failure.split()[1]
            assert [s.state for s in state.steps] == states


def test_steps_of_a_run_that_ended_are_read_until_they_have(server, connection, package_path, caplog):
    for last, failing in (("succeeded", ""), ("failed", "trainer")):
        server.state.failing_step = failing
        for stale in (0, 1, 3):
            server.state.stale_reads = stale
            caplog.clear()
            run_id = start(connection, package_path)
            assert _wait(connection, run_id).steps[-1].state == last
            assert f"step | trainer {last} in 30 s" in caplog.messages
            server.state.stale[run_id][1] = stale
            assert runs.read_run(connection, run_id).steps[-1].state == last
    # Tasks that never settle are shown as they are.
    server.state.stale_reads, server.state.failing_step = 1000, ""
    state = _wait(connection, start(connection, package_path))
    last = "succeeded" if server.state.keeps_tasks else "unknown"
    assert (state.state, state.steps[-1].state) == ("succeeded", last)


def test_a_pod_that_does_not_start_is_said_once_with_where_to_look(server, connection, run_id, caplog):
    server.state.waiting_step = "trainer"
    looks = iter([*["trainer"] * 7, *[""] * 99])
    _wait(connection, run_id, sleep=lambda _: setattr(server.state, "waiting_step", next(looks)))
    steps = [m for m in caplog.messages if "trainer" in m]
    if server.state.keeps_tasks:  # a task runs from its driver's start on
        assert steps == ["step | trainer running", "step | trainer succeeded in 30 s"]
        return
    assert steps[0::2] == ["step | trainer waiting for its pod", "step | trainer succeeded in 30 s"]
    assert "`kubectl -n kubeflow describe pod -l workflows.argoproj.io/workflow=digits-" in steps[1]


def test_a_step_inside_another_one_and_attempts_are_named(server, connection, run_id, package_path, caplog):
    server.state.outcomes = {"pusher": {"inside": [Step(name="probe", phase="Failed", begin=1)]}}
    server.state.failing_step = "pusher"
    assert _wait(connection, run_id).failure() == "step pusher/probe failed: see its log"
    assert "step | pusher/probe failed in 30 s" in caplog.messages
    # The attempts of what was repeated belong together.
    caplog.clear()
    server.state.failed_roots, server.state.failing_step = 1, ""
    server.state.outcomes = {"example-gen": {"failed_drivers": 1, "failed_attempts": 2}}
    assert _wait(connection, start(connection, package_path)).good
    attempts = ", attempt 3" * server.state.retried
    assert f"step | example-gen succeeded in 30 s{attempts}" in caplog.messages
    if not server.state.keeps_tasks:  # a task is failed between two attempts
        assert not any("failed" in message for message in caplog.messages)


def test_a_server_that_does_not_tell_steps_still_tells_the_end(server, connection, run_id, caplog):
    server.state.tells_steps = False
    server.state.failing_step = "trainer"
    assert _wait(connection, run_id).failure() == "the run failed: no step says why; see the user interface"
    assert _said(caplog, "run |") == ["run | running", "run | failed"]


def test_a_run_whose_version_or_workflow_is_gone_is_still_shown_and_not_cancelled(server, connection, run_id):
    runs.read_run(connection, run_id)
    server.misbehave("GET .*/versions/.*", 404)
    assert [s.name for s in runs.read_run(connection, run_id).steps] == ["example-gen", "pusher"]
    server.state.lost.add(run_id)
    with pytest.raises(ClusterError, match=r"no longer has the workflow of this run.*It no longer runs"):
        runs.cancel(connection, run_id)


def test_waiting_outlives_a_restart_but_no_refusal(server, connection, run_id, caplog, monkeypatch):
    server.misbehave("GET .*/runs/.*", 503, times=4)
    server.misbehave("GET .*/runs/.*", "close", times=3)
    assert _wait(connection, run_id).good
    server.misbehave("GET .*/runs/.*", 401)
    refused(ClusterError, "401", _wait, connection, run_id)
    assert f"{run_id} is no longer watched; see `detflow runs show {run_id}`" in caplog.text
    monkeypatch.setattr(runs, "_PATIENCE_SECONDS", -1)
    server.misbehave("GET .*/runs/.*", 503, times=9)
    refused(ClusterError, "503", _wait, connection, run_id)


def test_waiting_has_a_limit_and_the_run_goes_on_until_it_is_cancelled(server, connection, run_id):
    expected = f"not ended within 1e-09 s and continues: `detflow runs show {run_id}`"
    refused(ClusterError, expected, _wait, connection, run_id, limit_seconds=1e-9)
    runs.cancel(connection, run_id)
    state = _wait(connection, run_id)
    assert (state.state, state.good, state.ended, state.failure()) == ("cancelled", False, True, "")
    assert [s.state for s in state.steps] == ["succeeded", "cancelled", "not run"]
    [listed] = runs.list_runs(connection, 20)
    assert listed.state == "cancelled"
    refused(ConfigError, "the run was cancelled already", runs.cancel, connection, run_id)
    # A run that was cancelled and then failed has failed.
    server.state.failing_step = "pusher"
    runs.retry(connection, run_id)
    assert _wait(connection, run_id).state == "failed"


def test_a_run_that_is_being_stopped_is_left_to_it(server, connection, run_id):
    server.state.read_run = lambda i: server.state.show_run(server.state.runs[i])  # it takes its time to stop
    server.state.terminate(run_id)
    assert runs.cancel(connection, run_id).state == "cancelling" and server.count("POST .*:terminate") == 0
    server.state.runs[run_id]["state"] = "RUNNING"
    server.misbehave("POST .*:terminate", lambda: server.state.terminate(run_id))  # somebody is quicker
    assert runs.cancel(connection, run_id).state == "cancelling"
    server.state.runs[run_id]["state"] = "RUNNING"
    end = functools.partial(server.state.end_run, server.state.runs[run_id], "SUCCEEDED")
    server.misbehave("POST .*:terminate", end)
    refused(ConfigError, "the run has succeeded already", runs.cancel, connection, run_id)


def test_a_failed_run_is_retried(server, connection, run_id, caplog):
    expected = "only a failed or cancelled run can be retried, this one is running"
    refused(ConfigError, expected, runs.retry, connection, run_id)
    server.state.failing_step = "trainer"
    _wait(connection, run_id)
    server.state.failing_step = ""
    caplog.clear()  # of the first attempt, where other tests left the level of logging so
    assert _wait(connection, run_id, before=runs.retry(connection, run_id)).good
    assert _said(caplog) == ["step | trainer running", "step | trainer succeeded in 30 s"]


def test_the_newest_runs_are_listed_first_and_an_unknown_one_says_so(connection, run_id, package_path):
    for i in range(3):
        start(connection, package_path, name=f"later {i}")
    assert [s.name for s in runs.list_runs(connection, 2)] == ["later 2", "later 1"]
    assert len(runs.list_runs(connection, 20)) == 4
    with pytest.raises(ClusterError, match=r"reading the run nope: refused \(404: Run nope not found\)"):
        runs.read_run(connection, "nope")
