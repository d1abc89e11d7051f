"""The test server refuses what the real one refuses; otherwise the tests against it would prove little."""

import pytest
import yaml

from pipeline.kubeflow.api_errors import ClusterError
from pipeline.kubeflow.package import read_package
from pipeline.kubeflow.submission import publish
from tests.pipeline.kubeflow.clients import start
from tests.pipeline.kubeflow.kfp_state import RefusalError
from tests.pipeline.kubeflow.strict_bodies import BadBodyError, check_body


def test_an_unknown_key_and_a_wrong_type_are_refused():
    for body, message in (
        ({"display_nam": "x"}, "body.display_nam: unknown field"),
        ({"trigger": {"cron": "x"}}, "body.trigger.cron: unknown field"),
        ({"display_name": 3}, "body.display_name: expected str, found 3"),
        ({"no_catchup": "yes"}, "body.no_catchup: expected bool"),
        ({"max_concurrency": "many"}, "body.max_concurrency: expected"),
        ({"max_concurrency": True}, "body.max_concurrency: expected"),
        ({"mode": "ENABLED"}, "body.mode: expected one of"),
        ({"trigger": {"cron_schedule": {"start_time": "2030-01-01T00:00:00"}}}, "_time: expected datetime"),
        ({"runtime_config": {"parameters": []}}, r"expected dict\(str, object\)"),
        ([], "expected V2beta1RecurringRun"),
    ):
        with pytest.raises(BadBodyError, match=message):
            check_body("V2beta1RecurringRun", body)
    sent = {"display_name": "x", "max_concurrency": 1, "mode": "ENABLE"}
    sent["trigger"] = {"periodic_schedule": {"interval_second": 60, "end_time": "2030-01-01T00:00:00Z"}}
    check_body("V2beta1RecurringRun", {**sent, "runtime_config": {"parameters": {"a": [1, {"b": None}]}}})


def test_the_client_meets_the_rules_of_the_server(connection):
    client = connection.client
    bad = '{"predicates": [{"operation": 1, "key": "nam", "stringValue": "x"}]}'
    version = {"pipeline_id": "p", "version_id": "v"}
    for message, function, args, kwargs in (
        ("experiment id is missing", client.run_pipeline, (None, "x"), version),
        ("404: Experiment e not found", client.run_pipeline, ("e", "x"), version),
        ("400: bad sort: size", client.list_runs, (), {"sort_by": "size"}),
        ("400: Invalid filter", client.list_runs, (), {"filter": bad}),
    ):
        with pytest.raises(ClusterError, match=message):
            connection.call("asking", function, *args, **kwargs)


def test_an_unknown_field_for_kubernetes_is_refused_when_a_run_is_made(connection, package_path):
    executors = {"exec-trainer": {"imagePullPolicy": "Always", "deadline": 3}}
    platform = {"platforms": {"kubernetes": {"deploymentSpec": {"executors": executors}}}}
    with open(package_path, "a", encoding="utf-8") as file:
        file.write(f"---\n{yaml.safe_dump(platform)}")
    version = publish(connection, read_package(package_path))
    with pytest.raises(ClusterError, match="deadline"):
        start(connection, package_path, version)


def test_deleting_a_recurring_run_takes_its_workflows_with_it_unless_told_not_to(server, run_id):
    state, lost = server.state, []
    body = {key: state.runs[run_id][key] for key in ("experiment_id", "pipeline_version_reference")}
    body |= {"max_concurrency": "1", "runtime_config": {"parameters": {"data_path": "x"}}}
    body |= {"display_name": "nightly", "trigger": {"periodic_schedule": {"interval_second": 60}}}
    for policy in ("BACKGROUND", "ORPHAN"):
        made = state.create_recurring(body)["recurring_run_id"]
        fired = state.fire(made)
        state.delete_recurring(made, policy)
        lost.append(fired in state.lost)
    assert lost == [True, False]
    with pytest.raises(RefusalError, match="not found"):
        state.delete_recurring(made, "ORPHAN")


def test_a_run_is_told_as_kubeflow_tells_it(server, connection, package_path):
    run_id = start(connection, package_path)
    server.state.failing_step = "pusher"
    for _ in range(4):
        run = connection.call("reading", connection.client.get_run, run_id)
    assert [entry.state for entry in run.state_history] == ["PENDING", "RUNNING", "FAILED"]
    details = run.run_details.task_details
    assert not any(d.parent_task_id or d.pod_name or d.error for d in details)
    ids = {c.pod_name for d in details for c in d.child_tasks or ()}
    assert ids and not ids & {d.task_id for d in details}
    assert {d.state for d in details if d.display_name == "trainer"} == {"RUNTIME_STATE_UNSPECIFIED"}
    assert {"executor", "executor(0)", "pusher-driver(0)"} <= {d.display_name for d in details}
