"""Verbs on a cluster and on schedules, and the verb doctor."""

import functools
import json
import re
import sys

import pytest

from pipeline.cli import parser
from pipeline.cli.server import server_arguments
from pipeline.doctor.cluster import CLUSTER_CHECKS
from pipeline.settings.kubeflow_settings import ConnectionOptions
from tests.pipeline.doctor.conftest import kube_server  # noqa: F401
from tests.pipeline.golden import SETTINGS
from tests.pipeline.kubeflow.argo_model import Step
from tests.pipeline.kubeflow.conftest import write_package
from tests.support.command_line import CommandLine
from tests.support.compiled import with_short_stack
from tests.support.python_traps import set_traps

WAITING = ("--wait", "--poll", "0")


# Before and after Kubeflow's own tasks.
_VERSIONS = pytest.mark.parametrize("server", ["2.17.0", "3.0.0"], indirect=True)


@pytest.fixture
def call(server, cli):
    """Calls the command line against the server; gives the output, and `cli.err`."""

    def call(*words, code=0):
        return cli(*words, "--host", server.url, "--timeout", "5", code=code)

    return call


@pytest.fixture
def submit(call, package_path):
    return functools.partial(call, "submit", package_path, "--param", "data_path=/data")


def test_submitting_a_compiled_file_prints_the_link_and_waiting_shows_the_steps(server, submit, cli):
    out = submit("--param", "train_steps=5", "--experiment", "trials")
    [run] = server.state.runs.values()
    assert out == f"run {run['run_id']}\n{server.url}/#/runs/details/{run['run_id']}\n"
    assert run["runtime_config"]["parameters"] == {"data_path": "/data", "train_steps": 5}
    assert "pipeline | version digits-" in cli.err and "uploaded" in cli.err
    assert re.match(r"run \S+ succeeded\n", submit(*WAITING)) and "is there already" in cli.err
    assert [e["display_name"] for e in server.state.experiments.values()] == ["trials", "digits"]
    assert "step | trainer running" in cli.err and "step | trainer succeeded in 30 s" in cli.err


def _let_write(server, *words, **flags):
    """Let a step of the next run have written a log when the run ends."""
    end = server.state.end_run

    def end_and_write(run, state):
        end(run, state)
        server.write_log(run["run_id"], *words, **flags)

    server.state.end_run = end_and_write


@_VERSIONS
def test_a_failed_run_names_the_step_and_ends_with_3_and_its_log_is_shown(server, submit, cli, call):
    server.state.failing_step = "trainer"
    _let_write(server, "trainer", "I1101 1 launcher_v2.go:9] x\nTraceback\nValueError: no images")
    out = submit(*WAITING, code=3)
    assert re.match(r"run \S+ failed: step trainer failed: see its log\n", out)
    assert out.endswith("the end of the log of trainer:\nTraceback\nValueError: no images\n")
    assert "step trainer failed: see its log" in cli.err
    _let_write(server, "trainer", "\n".join(f"line {i}" for i in range(100)))
    failed = json.loads(submit(*WAITING, "--json", code=3))
    run_id = failed["run_id"]
    assert failed["state"] == "failed"
    for words, lines in (([], 25), (["--lines", "7"], 7), (["--lines", "1000"], 100)):
        assert len(call("runs", "log", run_id, *words).splitlines()) == lines
    call("runs", "log", run_id, "--lines", "0", code=2)
    assert "--lines: expected 1 or more, found 0" in cli.err


def test_a_mistake_is_one_line_before_anything_is_made(server, package_path, cli):
    words = ["submit", package_path, "--param", "data_path=/data", "--timeout", "2"]
    for more, message in (
        (["--param", "train_stepz=5"], "--param: no parameter train_stepz; did you mean train_steps?"),
        (["--set", "a=b"], "expected no --set for a compiled pipeline"),
        (["--token-env", "NOT_SET"], "token_env: the environment variable NOT_SET is not set"),
        (["--token-file", "/no/file"], "token_file: cannot read the token"),
    ):
        assert message in cli.refused(*words, "--host", server.url, *more)
    assert not server.state.pipelines
    nobody = "http://127.0.0.1:1"
    told = cli.refused(*words, "--host", nobody)
    assert told.startswith(f"detflow: ClusterError: {nobody}: asking for the server's health: nothing")


def test_a_settings_file_is_compiled_and_submitted(server, digits_settings, cli, monkeypatch, tmp_path):
    server.token = "topsecret"  # the settings name it, and never hold it
    monkeypatch.setenv("MY_TOKEN", "topsecret")
    with open(digits_settings, "a", encoding="utf-8") as f:
        f.write(
            f"kubeflow:\n  host: {server.url}\n  experiment: trials\n  service_account: robot\n"
            "  connection: {token_env: MY_TOKEN, timeout: 5}\n"
        )
    changes = ("--set", "train_config.num_steps=3", "--param", "train_steps=7")
    with_short_stack(cli, "submit", digits_settings, *changes)
    [run] = server.state.runs.values()
    assert run["runtime_config"]["parameters"] == {"train_steps": 7} and run["service_account"] == "robot"
    assert [e["display_name"] for e in server.state.experiments.values()] == ["trials"]
    version = server.state.versions[run["pipeline_version_reference"]["pipeline_version_id"]]
    assert "num_steps: 3" in json.dumps(version["pipeline_spec"])
    runs = ["runs", "show", run["run_id"], "--settings", digits_settings]
    assert "trainer" not in cli(*runs).splitlines()[0]
    (tmp_path / "token").write_text("another")
    told = cli.refused(*runs, "--token-file", tmp_path / "token")
    assert f"credentials from {tmp_path}/token were not accepted (401)" in told


@_VERSIONS
def test_runs_are_listed_shown_cancelled_and_retried(submit, call, cli):
    assert call("runs", "list") == "no runs yet\n"
    run_id = json.loads(submit("--json"))["run_id"]
    [listed] = json.loads(call("runs", "list", "--json"))
    assert listed["run_id"] == run_id and listed["state"] == "running"
    assert run_id in call("runs") and "pusher" in call("runs", "show", run_id)
    assert json.loads(call("runs", "cancel", run_id, "--json"))["state"] == "cancelled"
    call("runs", "cancel", run_id, code=2)
    assert "the run was cancelled already; nothing to stop" in cli.err and "cancelled" in call("runs", "list")
    assert "succeeded" in call("runs", "retry", run_id, *WAITING)
    call("runs", "show", "nope", code=2)
    assert "reading the run nope: refused (404: Run nope not found)" in cli.err


@_VERSIONS
def test_the_log_of_a_step(server, submit, call, cli):
    server.state.failing_step = "pusher"
    run_id = json.loads(submit("--json"))["run_id"]
    call("runs", "retry", run_id, code=2)
    assert "only a failed or cancelled run can be retried, this one is running" in cli.err
    for _ in range(3):
        call("runs", "show", run_id)
    server.write_log(run_id, "pusher", "I1101 1 launcher_v2.go:9] x\nthe end")
    log = ["runs", "log", run_id]
    assert call(*log) == "the end\n" and "launcher_v2" in call(*log, "--launcher")
    assert "the server keeps no log of example-gen; see http" in call(*log, "--step", "example-gen")
    assert call(*log, "--step", "trainer") == "trainer was not run; it has no log\n"
    call(*log, "--step", "nope", code=2)
    assert "expected a step with --step, found nope; the run has example-gen, pusher" in cli.err


@_VERSIONS
def test_a_run_that_somebody_stops_ends_with_4(server, submit, cli):
    server.misbehave("GET .*/runs/.*", lambda: server.state.terminate(next(iter(server.state.runs))))
    out = submit(*WAITING, code=4)
    assert re.match(r"run \S+ cancelled\nhttp", out) and "failed" not in out + cli.err


@_VERSIONS
def test_steps_inside_others_are_shown_under_them(server, submit, call):
    inside = [Step(name="probe", phase="Cached"), Step(name="probe-2", failed_attempts=1)]
    server.state.outcomes = {"example-gen": {"inside": inside}, "pusher": {"phase": "Cached"}}
    run_id = json.loads(submit("--json"))["run_id"]
    for _ in range(3):
        out = call("runs", "show", run_id)
    assert out.split("\n\n")[1].splitlines() == [
        "step         state      seconds  attempts", "example-gen  succeeded  30       1",
        "  probe      cached     -        -", "  probe-2    succeeded  30       2",
        "pusher       cached     -        -", "trainer      succeeded  30       1",
    ]  # fmt: skip


def test_interrupting_the_waiting_leaves_the_run_alone(server, submit, cli, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("pipeline.kubeflow.runs.wait_for", interrupted)
    submit("--wait", code=130)
    [run_id] = server.state.runs
    assert f"{run_id} continues; `detflow runs cancel {run_id}` stops it" in cli.err


def test_every_option_of_a_connection_is_a_flag_with_the_meaning_of_its_setting():
    flags = {words for argument in server_arguments() for words in argument.flags}
    options = {name.replace("_", "-") for name in ConnectionOptions.model_fields}
    assert flags == {f"--{name}" for name in options - {"verify-tls"}} | {"--no-verify-tls"}
    for argument in server_arguments():
        name = argument.options.get("dest") or argument.flags[0].removeprefix("--").replace("-", "_")
        assert ConnectionOptions.model_fields[name].description in argument.options["help"]


def test_what_could_not_begin_or_waits_is_shown_with_the_cause_and_where_to_look(server, submit, call):
    server.state.failing_root = True
    end = "F1123 10:00:00.2 18 main.go:127] KFP driver: no bucket"
    _let_write(server, "root", "I1123 10:00:00.1 18 main.go:333] input:{\n  1\n}\n" + end, driver=True)
    said = "step root failed: Kubeflow's driver could not prepare it: KFP driver: no bucket"
    assert said in submit(*WAITING, code=3).splitlines()[0]
    [run_id] = server.state.runs
    assert said in call("runs", "show", run_id).splitlines() and call("runs", "log", run_id).strip() == end
    server.state.failing_root, server.state.waiting_step = False, "example-gen"
    out = call("runs", "show", json.loads(submit("--json"))["run_id"])
    assert re.search(r"example-gen +waiting for its pod", out)
    assert "`kubectl -n kubeflow describe pod -l workflows.argoproj.io/workflow=digits-" in out


def test_what_the_server_would_refuse_is_refused_before_anything_is_made(server, call, tmp_path, cli):
    server.version = "2.16.1"
    for verb in (["submit"], ["schedule", "create", "--cron", "@daily"]):
        for name, more, message in (
            ("a" * 111, [], "pipeline's name: expected 110 characters at most, found 111"),
            ("d", ["--experiment", "e" * 300], "experiment's name: expected 128 characters at most, found"),
            ("d", ["--param", "data_path=[[ScheduledTime]]"], "expected a server 2.17 or newer for [["),
        ):
            call(*verb, write_package(tmp_path, name=name), "--param", "data_path=/d", *more, code=2)
            assert message in cli.err
    assert not server.state.pipelines and not server.state.experiments


@pytest.fixture
def words(server):
    """What all verbs that ask the server end with."""
    return ["--host", server.url, "--timeout", "5"]


@pytest.fixture
def create(package_path, words):
    return ["schedule", "create", package_path, "--name", "nightly", "--param", "data_path=/d", *words]


def test_creating_shows_what_was_done_and_the_next_times(cli, create):
    lines = cli(*create, "--cron", "0 0 3 * * *").splitlines()
    assert lines[0] == "schedule nightly created" and "/#/recurringrun/details/" in lines[1]
    assert lines[3] == "next times, UTC:" and len([t for t in lines if t.endswith("T03:00:00+00:00")]) == 5
    assert cli(*create, "--cron", "0 0 3 * * *").startswith("schedule nightly unchanged\n")
    replaced = cli(*create, "--interval", "6h", "--max-concurrency", "2")
    assert replaced.startswith("schedule nightly replaced\n  cron: '0 0 3 * * *' -> ''\n")
    assert "  max_concurrency: 1 -> 2\n" in replaced


def test_a_mistake_in_a_schedule_is_one_line_before_anything_is_made(server, create, words, tmp_path, cli):
    daily, placeholder = ["--cron", "@daily"], ["--param", "data_path=/d/[[ScheduledTime]]"]
    for more, message in (
        ([*daily, "--interval", "1h"], "found both"),
        ([*daily, "--max-concurrency", "11"], "max_concurrency: expected 1 to 10, found 11"),
        ([*daily, "--end", "2020-01-01T00:00:00Z"], "would never fire"),
        ([*daily, "--param", "data_path=[[ScheduleTime]]"], "did you mean [[ScheduledTime]]?"),
        ([*daily, "--param", "data_path=/d/[[Index]]"], "[[Index]] cannot be filled"),
        ([*daily, "--param", "x=1"], "no parameter x"),
    ):
        assert message in cli.refused(*create, *more)
    unfilled = ["schedule", "create", write_package(tmp_path, fills=False), *daily, *placeholder]
    assert "this pipeline fills them in no parameter" in cli.refused(*unfilled, *words)
    assert not server.requests


def test_a_settings_file_holds_the_schedule_and_flags_win(server, digits_settings, words, cli):
    with open(digits_settings, "a", encoding="utf-8") as f:
        f.write(
            "schedule:\n  cron: '@daily'\n  paused: true\n  max_concurrency: 3\n"
            "  parameters: {train_steps: 9, data_path: '/d/[[ScheduledTime]]'}\n"
        )
    more = ["--param", "train_steps=10", "--interval", "6h"]
    out = with_short_stack(cli, "schedule", "create", digits_settings, *more, *words)
    assert out.startswith("schedule digits created; it is paused\n")
    [kept] = server.state.recurring.values()
    assert kept["trigger"] == {"periodic_schedule": {"interval_second": 21600}}
    assert kept["max_concurrency"] == "3" and kept["no_catchup"] is True
    assert kept["runtime_config"]["parameters"] == {"train_steps": 10, "data_path": "/d/[[ScheduledTime]]"}


def test_a_schedule_is_listed_shown_paused_resumed_run_and_deleted(server, create, words, cli):
    def call(*verb):
        return cli("schedule", *verb, *words)

    assert call("list") == "no schedules yet\n"
    cli(*create, "--cron", "@daily", "--start", "2030-01-01T00:00:00Z")
    [listed] = cli.json("schedule", "list", *words)
    assert listed["name"] == "nightly" and listed["start"] == "2030-01-01T00:00:00+00:00"
    assert "nightly  cron @daily  on" in call("list")
    [kept] = server.state.recurring.values()
    for said in (
        "2030-01-01T00:00:00+00:00 to open",
        kept["pipeline_version_reference"]["pipeline_version_id"],
    ):
        assert said in call("show", "nightly")
    assert call("pause", "nightly") == "schedule nightly paused\n" and "paused" in call("list")
    assert call("resume", "nightly") == "schedule nightly resumed\n"
    said = cli.json("schedule", "run-now", "nightly", "--param", "train_steps=3", *words)
    [run] = server.state.runs.values()
    assert said["run"] == run["run_id"]
    assert run["runtime_config"]["parameters"] == {"data_path": "/d", "train_steps": 3}
    assert call("delete", "nightly") == "schedule nightly deleted; its runs stay\n"
    assert "no schedule nightly; there is none yet" in cli.refused("schedule", "show", "nightly", *words)


def test_units_and_previews_are_printed(digits_settings, tmp_path, cli):
    words = ["schedule", "run-local", digits_settings, "--set", "schedule.cron=@daily"]
    part = tmp_path / "part.config"
    units = cli(*words, "--print-systemd", "--override-file", part)
    assert f"run {digits_settings} --set schedule.cron=@daily --override-file {part}" in units
    assert "# digits.timer" in units
    preview = ["schedule", "preview", digits_settings, "--set", "schedule.cron=0 0 3 ? * MON"]
    assert "next times, Europe/Paris:" in cli(*preview, "--set", "schedule.time_zone=Europe/Paris")
    assert len(cli.json(*preview)["next"]) == 5
    with open(digits_settings, "a", encoding="utf-8") as f:
        f.write("schedule:\n  cron: '@daily'\n  parameters: {train_steps: 9, span: latest, image: a}\n")
    words = ["schedule", "run-local", digits_settings, "--print-systemd"]
    assert f"run {digits_settings} --param train_steps=9 --param span=latest\n" in cli(*words)
    assert "the parameter image is for a cluster" in cli.err
    told = cli.refused(*words, "--set", "schedule.parameters={train_step: 9}")
    assert "no parameter train_step; did you mean train_steps?" in told


def test_a_run_for_a_slot_has_its_time_in_the_place_of_placeholders(digits_settings, tmp_path, cli):
    """The data folder does not exist: the first thing that a run looks at says what was filled in."""
    words = ["run", digits_settings, "--param", f"data_path={tmp_path}/[[ScheduledTime.2006-01-02]]"]
    for more, message in (
        ([*words, "--scheduled-time", "2026-11-21T03:00:00+09:00"], f"{tmp_path}/2026-11-20/"),
        ([*words, "--scheduled-time", "tomorrow"], "expected an RFC 3339 time"),
        ([*words[:2], "--set", "data.shards_uri=/s/[[RunUUID]]"], "shards_uri: expected no placeholder"),
    ):
        cli(*more, code=2)
        assert message in cli.err


def test_the_schedule_runs_the_workflow_of_the_settings(digits_settings, capfd, monkeypatch, tmp_path):
    """The data folder is empty: the run itself fails at once, the schedule goes on to its end."""
    executed, cli = set_traps(tmp_path / "started_in"), CommandLine(capfd)
    monkeypatch.chdir(tmp_path / "started_in")
    monkeypatch.setattr(sys, "argv", ["detflow"])
    words = ["schedule", "run-local", digits_settings, "--set", "schedule.interval=1s", "--max-runs", "1"]
    assert cli(*words, "--set", "evaluate.split=test") == "1 runs\n" and not executed.exists()
    assert "detflow: ConfigError: " in cli.err or "DataError" in cli.err
    assert "schedule | digits: every 1s" in cli.err
    assert "schedule | run failed with exit code 2; the next slot tries again" in cli.err


def test_the_machine_is_told_in_lines_and_a_missing_kubeconfig_in_one(capsys, cli):
    code = parser.main(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    assert code in (0, 2) and any(line.split()[:2] == ["ok", "python"] for line in lines)
    assert lines[-1].startswith(f"problems: {0 if code == 0 else ''}")
    assert "expected a kubeconfig" in cli.refused("doctor", "--cluster")


def test_the_claims_images_and_accounts_are_those_of_the_settings(kube_server, server, cli):  # noqa: F811
    words = ["doctor", "--cluster", "--host", server.url]
    answer = cli.json(*words, "--settings", SETTINGS, code=2)
    found = [f["found"] for f in answer["findings"] if f["check"] in ("claims", "account", "images")]
    assert not answer["healthy"] and any("no service account detflow-runner" in line for line in found)
    assert any("detflow-work: " in x and " has no claim of this name; mounted by trainer" in x for x in found)
    assert any(line.startswith("detflow:0.1.0: names no registry") for line in found)
    answer = cli.json(*words, code=2)
    silent = {"rights"}  # on a server without users
    assert {f["check"] for f in answer["findings"]} == {c.name for c in CLUSTER_CHECKS} - silent
