"""Requests, and what the server says when it refuses."""

import gzip
import json
import threading
import tracemalloc
import types

import kfp_server_api
import pytest
import urllib3
import yaml

from pipeline.kubeflow.api_errors import ClusterError, explain, server_message
from pipeline.kubeflow.connection import AnswerTooLargeError, Connection, bounded_rest, keep_host
from pipeline.kubeflow.package import read_package
from pipeline.kubeflow.submission import publish
from pipeline.settings.kubeflow_settings import ConnectionOptions
from tests.pipeline.kubeflow.clients import start
from tests.pipeline.kubeflow.kfp_state import RefusalError
from tests.pipeline.kubeflow.strict_bodies import BadBodyError, check_body
from tests.support.cases import refused
from tests.support.local_server import serve_raw

HEALTH = b'{"multi_user": false, "tag_name": "2.17.0"}'
MEBIBYTE = b" " * (1 << 20)


@pytest.fixture
def hostile():
    """A server whose answers are made by `answer(connection)`."""
    server = types.SimpleNamespace(answer=_answer(HEALTH))
    with serve_raw(lambda connection, _: server.answer(connection)) as server.url:
        yield server


def _connect(server, timeout=3):
    return Connection.open(ConnectionOptions(host=server.url, timeout=timeout))


def _answer(body, head="", *, times=1):
    """Answer with a body so many times, its length in the head unless there is another one."""
    head = f"HTTP/1.1 200 OK\r\nConnection: close\r\n{head or f'Content-Length: {len(body) * times}'}\r\n\r\n"

    def answer(connection):
        connection.sendall(head.encode("latin-1"))
        for _ in range(times):
            connection.sendall(body)

    return answer


def _packed(body):
    return _answer(body, f"Content-Encoding: gzip\r\nContent-Length: {len(body)}")


def test_an_answer_of_gigabytes_is_refused_with_the_limit_and_not_held_in_memory(hostile, monkeypatch):
    expected = r"an answer of {}, where {} MiB are read at most; check that --host"
    told = _answer(MEBIBYTE, times=3 << 10)
    untold = _answer(b"100000\r\n" + MEBIBYTE + b"\r\n", "Transfer-Encoding: chunked", times=3_000)
    for hostile.answer, size in ((told, "3,072 MiB"), (untold, "more than 64 MiB")):
        assert not refused(ClusterError, expected.format(size, 64), _connect, hostile, timeout=60).transient
    monkeypatch.setattr("pipeline.kubeflow.connection.ANSWER_MIB", 8)
    tracemalloc.start()
    for hostile.answer in (untold, _packed(gzip.compress(MEBIBYTE) * 32)):
        refused(ClusterError, expected.format("more than 8 MiB", 8), _connect, hostile, timeout=60)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * (8 << 20)


def test_an_answer_that_drips_costs_no_more_than_the_limit(hostile):
    connection = _connect(hostile)
    over = threading.Event()

    def drip(connection):
        _answer(b"", "Content-Length: 1000")(connection)
        while not over.wait(0.02):
            connection.sendall(b" ")

    hostile.answer = drip
    connection.api_client.rest_client = bounded_rest(connection.api_client.configuration, 0.2)
    refused(ClusterError, "no answer within the time limit", connection.get_text, "reading", "/x")
    over.set()


def test_a_size_that_is_no_number_is_ignored_and_of_a_long_log_the_end_is_read(hostile, monkeypatch):
    wrong = [_answer(HEALTH, f"Content-Length: {size}") for size in ("9" * 5000, "\u00b2", "-1", "x")]
    for hostile.answer in (*wrong, _packed(gzip.compress(HEALTH))):
        assert _connect(hostile).server_version == "2.17.0"
    monkeypatch.setattr("pipeline.kubeflow.connection.ANSWER_MIB", 1)
    connection = _connect(hostile, timeout=30)
    hostile.answer = _answer(b"x" * (3 << 20) + b" the end")
    text = connection.get_text("reading a log", "/log", end_only=True)
    assert text.endswith("x the end") and (1 << 20) - (1 << 16) < len(text) <= 1 << 20
    refused(ClusterError, "an answer of 3 MiB", connection.get_text, "reading a log", "/log")


def test_a_token_that_is_renewed_keeps_the_address():
    def renew(renewed):
        renewed.host, renewed.refresh_api_key_hook = "http://api", renew

    for hook in (None, renew):
        kept = types.SimpleNamespace(host="http://api/proxy/", refresh_api_key_hook=hook, api_key={})
        keep_host(kept)
        for _ in range(2 if hook else 0):
            kept.refresh_api_key_hook(kept)
        assert kept.host == "http://api/proxy" and (kept.refresh_api_key_hook is None) == (hook is None)


def _refusal(status, body):
    error = kfp_server_api.ApiException(status=status, reason="Reason")
    error.body = json.dumps(body) if isinstance(body, dict) else body
    return error


def _explained(error):
    return explain(error, host="http://h", doing="uploading x", credentials="/token")


_TRACE = "Failed to create: bad name\ngithub.com/kubeflow/pipelines/x.New\n\t/go/a.go:1"
_DETAILS = "no such thing\nmain.main\n\t/go/src/main.go:79\nruntime.goexit"
_LINK = "cron is not supported(https://godoc.org/github.com/robfig/cron). Error: x"


def test_the_sentence_of_a_refusal_is_found_in_every_kind_of_body():
    for body, said in (
        ({"error": "e", "code": 5, "message": "Run 1\n not  found"}, "Run 1 not found"),
        ({"error_message": "m", "error_details": "d"}, "d"),
        (b"plain bytes", "plain bytes"),
        ("<html>x</html>", "Reason"),
        (None, "Reason"),
        ("[1]", "[1]"),
        ({"message": _TRACE}, "Failed to create: bad name"),
        ({"error_details": _DETAILS}, "no such thing"),
        (_LINK, _LINK),
    ):
        assert server_message(_refusal(400, body)) == said, body


# As server 2.17.0 puts it together: `util.Wrap` in front, `resource_manager.go:IsAuthorized` at the end.
_DENIED = (
    "Failed to create a run: Failed to authorize with API: Failed to access resource. Check if you have"
    " access to namespace someone-elses-team-with-a-long-name: Failed to authorize the request:"
    " PermissionDenied: User 'anna@example.com' is not authorized with reason:  (request:"
    " &ResourceAttributes{Namespace:someone-elses-team-with-a-long-name,Verb:create,"
    "Group:pipelines.kubeflow.org,Version:v2beta1,Resource:runs,Subresource:,Name:,FieldSelector:nil,"
    "LabelSelector:nil,}): Unauthorized access"
)


def test_forbidden_names_who_may_not_do_what_and_a_long_or_unknown_refusal_keeps_its_cause_in_one_line():
    assert str(_explained(_refusal(403, {"message": _DENIED}))) == (
        "http://h: uploading x: anna@example.com may not create runs in the namespace"
        " someone-elses-team-with-a-long-name (403); check --namespace, or ask for the right"
    )
    assert "the holder of the credentials from /token may not do this" in str(_explained(_refusal(403, "no")))
    message = str(_explained(_refusal(400, "Failed to x: " + "y" * 1000 + ": no such claim")))
    assert "Failed to x" in message and message.count("y") < 400 and "no such claim)" in message
    message = str(_explained(OSError("some\nthing odd")))
    assert message == "http://h: uploading x: no answer (some thing odd); check --host and the network"


def test_a_refused_schema_says_which_side_is_older_or_names_both_ways_out():
    only, other = "KFP only supports schema version 2.1.0", ", but the pipeline spec has version"
    kfp = "the kfp that compiled it is"
    upgrade = f"{kfp} newer than the server, or the server older than 2.16; upgrade the server"
    for said, expected in (
        (f"{only}{other} 2.0.0", f"{kfp} older than the server; compile it again with kfp 2.16"),
        (f"{only}{other} 2.10.0", upgrade),
        (only, f"{upgrade}, or compile with its kfp"),
        ('unknown field "x"', upgrade),
        ("InvalidInputError: unknown template format", upgrade),
    ):
        message = str(_explained(_refusal(400, {"message": said})))
        assert "does not understand the pipeline" in message and expected in message


def test_what_may_pass_is_told_from_what_will_not_and_a_proxy_from_a_path_that_names_one():
    for error, transient, status in (
        (_refusal(500, ""), True, 500),
        (_refusal(499, ""), False, 499),
        (_refusal(429, ""), True, 429),
        (_refusal(404, ""), False, 404),
        (OSError("x"), True, 0),
        (AnswerTooLargeError("1 GiB"), False, 0),
    ):
        explained = _explained(error)
        assert (explained.transient, explained.status) == (transient, status)
    path = "/api/v1/namespaces/kubeflow/services/ml-pipeline:http/proxy/apis/v2beta1/healthz"
    for pool, url, said in (
        (urllib3.PoolManager(), f"http://127.0.0.1:1{path}", "nothing listens there"),
        (urllib3.ProxyManager("http://127.0.0.1:1"), "http://far.invalid/", "the proxy did not answer"),
    ):
        caught = refused(urllib3.exceptions.HTTPError, "", pool.request, "GET", url, retries=0)
        assert said in str(_explained(caught))


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
        refused(BadBodyError, message, check_body, "V2beta1RecurringRun", body)
    sent = {"display_name": "x", "max_concurrency": 1, "mode": "ENABLE"}
    sent["trigger"] = {"periodic_schedule": {"interval_second": 60, "end_time": "2030-01-01T00:00:00Z"}}
    check_body("V2beta1RecurringRun", {**sent, "runtime_config": {"parameters": {"a": [1, {"b": None}]}}})


def test_the_client_meets_the_rules_of_the_server_and_of_kubernetes(connection, package_path):
    client = connection.client
    bad = '{"predicates": [{"operation": 1, "key": "nam", "stringValue": "x"}]}'
    version = {"pipeline_id": "p", "version_id": "v"}
    for message, function, args, kwargs in (
        ("experiment id is missing", client.run_pipeline, (None, "x"), version),
        ("404: Experiment e not found", client.run_pipeline, ("e", "x"), version),
        ("400: bad sort: size", client.list_runs, (), {"sort_by": "size"}),
        ("400: Invalid filter", client.list_runs, (), {"filter": bad}),
    ):
        refused(ClusterError, message, connection.call, "asking", function, *args, **kwargs)
    executors = {"exec-trainer": {"imagePullPolicy": "Always", "deadline": 3}}
    platform = {"platforms": {"kubernetes": {"deploymentSpec": {"executors": executors}}}}
    with open(package_path, "a", encoding="utf-8") as file:
        file.write(f"---\n{yaml.safe_dump(platform)}")
    version = publish(connection, read_package(package_path))
    refused(ClusterError, "deadline", start, connection, package_path, version)


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
    refused(RefusalError, "not found", state.delete_recurring, made, "ORPHAN")


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
