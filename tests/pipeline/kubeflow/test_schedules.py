import dataclasses

import pytest

from detection_core.errors import ConfigError
from pipeline.kubeflow import runs, schedules
from pipeline.kubeflow.api_errors import ClusterError
from pipeline.kubeflow.package import read_package
from pipeline.kubeflow.schedules import ScheduleSpec, apply, find_schedule, list_schedules
from pipeline.kubeflow.submission import ensure_experiment, publish
from tests.pipeline.kubeflow.clients import connect
from tests.pipeline.kubeflow.conftest import write_package
from tests.pipeline.kubeflow.kfp_server import VERSIONS
from tests.pipeline.schedule.triggers import trigger
from tests.support.cases import refused


@pytest.fixture
def spec(connection, package_path):
    return ScheduleSpec(
        name="nightly",
        trigger=trigger(cron="0 0 3 * * *", start="2030-01-01T00:00:00+01:00"),
        max_concurrency=1,
        catch_up=False,
        parameters={"data_path": "/data/[[ScheduledTime]]", "learning_rate": 1},
        version=publish(connection, read_package(package_path)),
        experiment_id=ensure_experiment(connection, "digits"),
    )


def _change(spec, **changes):
    return dataclasses.replace(spec, **changes)


def _only(server):
    """Return the one recurring run of a server."""
    [kept] = server.state.recurring.values()
    return kept


def _add(server, *copies):
    server.state.recurring.update({copy["recurring_run_id"]: copy for copy in copies})


def _ends(connection, run_id):
    return runs.wait_for(connection, run_id, poll_seconds=0, limit_seconds=0).good


def test_creating_it_twice_changes_nothing(server, connection, spec):
    first, second = apply(connection, spec), apply(connection, spec)
    assert (first.action, second.action) == ("created", "unchanged")
    kept = _only(server)
    assert kept["no_catchup"] is True and kept["status"] == "ENABLED" and kept["max_concurrency"] == "1"
    cron = {"cron": "0 0 3 * * *", "start_time": "2029-12-31T23:00:00+00:00"}
    assert kept["trigger"] == {"cron_schedule": cron}
    assert kept["pipeline_version_reference"]["pipeline_version_id"] == spec.version.version_id
    assert kept["runtime_config"]["parameters"] == spec.parameters
    assert second.schedule.when == "cron 0 0 3 * * *"
    # Two that create it at the same moment end with one.
    other = server.state.recurring.popitem()[1]
    server.misbehave(_CREATE, lambda: _add(server, other))
    assert apply(connection, spec).action == "unchanged"
    assert list(server.state.recurring) == [other["recurring_run_id"]]


def test_a_change_replaces_the_schedule_and_is_told(server, connection, spec, tmp_path, subtests):
    release = publish(connection, read_package(write_package(tmp_path, steps=("trainer",))))
    apply(connection, spec)
    for told, changes in (
        ("pipeline version: ", {"version": release}),
        ("max_concurrency: 1 -> 10", {"max_concurrency": 10}),
        ("catch_up: False -> True", {"catch_up": True}),
        ("parameters: ", {"parameters": {"data_path": "/other"}}),
        ("service_account: 'pipeline-runner' -> 'robot'", {"service_account": "robot"}),
        ("interval: 0 -> 21600", {"trigger": trigger(interval="6h", end="2031-01-01T00:00:00Z")}),
    ):
        with subtests.test(told):
            old = apply(connection, spec).schedule
            applied = apply(connection, _change(spec, **changes))
            assert applied.action == "replaced" and any(change.startswith(told) for change in applied.changes)
            kept = _only(server)
            assert kept["recurring_run_id"] != old.schedule_id and kept["status"] == "ENABLED"
            assert apply(connection, _change(spec, **changes)).action == "unchanged"


def test_a_start_that_is_over_makes_no_run_of_its_own(server, connection, spec):
    # Kubeflow would make up for the last slot since then at once, with every replacement again.
    started = _change(spec, trigger=trigger(cron="0 0 3 * * *", start="2020-01-01T00:00:00Z"))
    apply(connection, started)
    kept = _only(server)
    assert kept["trigger"] == {"cron_schedule": {"cron": "0 0 3 * * *"}}
    kept["trigger"]["cron_schedule"]["start_time"] = "2020-01-01T00:00:00Z"  # it was ahead when this was made
    assert apply(connection, started).action == "unchanged"
    apply(connection, _change(started, catch_up=True))
    kept = _only(server)
    assert kept["trigger"]["cron_schedule"]["start_time"] == "2020-01-01T00:00:00+00:00"


def test_a_paused_schedule_stays_paused(connection, spec):
    paused = _change(spec, paused=True)
    assert not apply(connection, paused).schedule.enabled
    assert apply(connection, _change(paused, catch_up=True)).schedule.enabled is False
    schedules.set_enabled(connection, find_schedule(connection, "nightly"), enabled=True)
    assert apply(connection, _change(paused, catch_up=True)).schedule.enabled is True


_CREATE, _PAUSE = "POST .*/recurringruns", "POST .*:disable"
_RESUME, _DELETE = "POST .*:enable", "DELETE .*/recurringruns/.*"


def test_a_replacement_that_is_cut_off_anywhere_is_finished_later(server, connection, spec, subtests):
    enabled = [(step, False) for step in (_CREATE, _PAUSE, _RESUME, _DELETE)]
    for failing, was_paused in (*enabled, (_CREATE, True), (_DELETE, True)):
        server.state.recurring.clear()
        with subtests.test(failing, was_paused=was_paused):
            apply(connection, _change(spec, paused=was_paused))
            server.misbehave(failing, 500)
            changed = _change(spec, max_concurrency=2)
            refused(ClusterError, "500", apply, connection, changed)
            assert server.state.recurring, "there must be a schedule at every moment"
            firing = [r for r in server.state.recurring.values() if r["status"] == "ENABLED"]
            assert len(firing) <= 1, "and no more than one that fires"
            assert apply(connection, changed).schedule.max_concurrency == 2
            assert _only(server)["status"] == ("DISABLED" if was_paused else "ENABLED")
    server.misbehave(_DELETE, 500)
    refused(ClusterError, "500", apply, connection, _change(spec, max_concurrency=4))
    assert len(server.state.recurring) == 2
    schedules.delete(connection, find_schedule(connection, "nightly"))
    assert not server.state.recurring
    apply(connection, spec)
    server.misbehave(_RESUME, 500)
    refused(ClusterError, "", apply, connection, _change(spec, max_concurrency=2))
    assert apply(connection, _change(spec, max_concurrency=3)).action == "replaced"
    kept = _only(server)
    assert kept["max_concurrency"] == "3" and kept["status"] == "ENABLED"


def test_two_of_a_name_that_somebody_else_made_are_refused(server, connection, spec):
    apply(connection, spec)
    one = _only(server)
    _add(server, {**one, "recurring_run_id": "other", "description": "mine"})
    with pytest.raises(ConfigError, match=r"2 schedules are named nightly: .*other; delete all but one"):
        apply(connection, _change(spec, max_concurrency=2))
    refused(ConfigError, "2 schedules are named nightly", find_schedule, connection, "nightly")
    schedules.delete(connection, find_schedule(connection, "other"))
    assert find_schedule(connection, "nightly").schedule_id == one["recurring_run_id"]


def test_schedules_are_paused_resumed_listed_and_deleted(connection, spec):
    refused(ConfigError, "no schedule nightly; there is none yet", find_schedule, connection, "nightly")
    with pytest.raises(ClusterError, match="max concurrency of the recurring run is out of range"):
        apply(connection, _change(spec, max_concurrency=11))
    for i in range(3):
        apply(connection, _change(spec, name=f"night-{i}"))
    assert [s.name for s in list_schedules(connection)] == ["night-0", "night-1", "night-2"]
    schedule = find_schedule(connection, "night-1")
    assert schedules.set_enabled(connection, schedule, enabled=False).enabled is False
    assert find_schedule(connection, schedule.schedule_id).enabled is False
    schedules.set_enabled(connection, schedule, enabled=True)
    assert find_schedule(connection, "night-1").enabled
    schedules.delete(connection, schedule)
    refused(ConfigError, "no schedule night-1; did you mean night-", find_schedule, connection, "night-1")
    with pytest.raises(ClusterError, match=r"deleting the schedule night-1: refused \(404"):
        schedules.delete(connection, schedule)


def test_runs_under_way_outlive_the_schedule_that_started_them(server, spec):
    for version in (*VERSIONS, "unknown"):
        server.become(version)
        connection = connect(server)
        run_ids = [server.state.fire(apply(connection, spec).schedule.schedule_id)]
        second = apply(connection, _change(spec, max_concurrency=2)).schedule
        run_ids.append(server.state.fire(second.schedule_id))
        schedules.delete(connection, second)
        assert not server.state.recurring and all(_ends(connection, run_id) for run_id in run_ids)


def test_run_now_uses_the_pinned_version_its_placeholders_and_folder(server, connection, spec, tmp_path):
    schedule = apply(connection, spec).schedule
    publish(connection, read_package(write_package(tmp_path, steps=("trainer",))))
    run = server.state.runs[schedules.run_now(connection, schedule, ["train_steps=7"])]
    assert run["pipeline_version_reference"]["pipeline_version_id"] == spec.version.version_id
    parameters = run["runtime_config"]["parameters"]
    assert parameters["data_path"] == "/data/[[ScheduledTime]]" and parameters["train_steps"] == 7
    assert run["service_account"] == "pipeline-runner"
    refused(ConfigError, "no parameter x", schedules.run_now, connection, schedule, ["x=1"])
    # Every run is given the folder of the artifacts.
    path = write_package(tmp_path, defaultPipelineRoot="gs://bucket/root")
    schedule = apply(connection, _change(spec, version=publish(connection, read_package(path)))).schedule
    run = server.state.runs[schedules.run_now(connection, schedule, [])]
    for made in (_only(server), run):
        assert made["runtime_config"]["pipeline_root"] == "gs://bucket/root"
    # The pinned version has to be there still.
    server.state.versions.clear()
    with pytest.raises(ClusterError, match=r"reading the pipeline version of nightly: refused \(404"):
        schedules.run_now(connection, schedule, [])
    with pytest.raises(ConfigError, match="pins no pipeline version"):
        schedules.run_now(connection, dataclasses.replace(schedule, version_id=""), [])


def test_several_calls_at_the_same_moment_end_with_one_schedule(server, connection, spec):
    apply(connection, spec)
    first = _only(server)
    oldest = first["recurring_run_id"]
    made = ({"recurring_run_id": f"copy-{i}", "created_at": f"2026-12-0{i + 1}T00:00:00Z"} for i in range(2))
    copies = [first | fields for fields in made]
    # Three that create it end with the oldest.
    _add(server, *copies)
    assert apply(connection, spec).action == "unchanged"
    assert _only(server) == first and first["status"] == "ENABLED"
    # One that another call deletes first is no fault.
    _add(server, *copies)
    server.misbehave("DELETE .*/copy-0.*", 404)
    assert apply(connection, spec).action == "unchanged" and "copy-1" not in server.state.recurring
    # Two replacements end with the newest.
    description = f"Made by `detflow schedule create`. Replaces {oldest}, then enabled."
    _add(server, *(copy | {"status": "DISABLED", "description": description} for copy in copies))
    assert apply(connection, spec).action == "unchanged"
    assert {k: v["status"] for k, v in server.state.recurring.items()} == {"copy-1": "ENABLED"}
