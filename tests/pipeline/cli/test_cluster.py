from __future__ import annotations

import json
import re

import pytest

from pipeline.cli import parser
from pipeline.cli.server import server_arguments
from pipeline.settings.connection_settings import ConnectionOptions
from tests.pipeline.kubeflow.argo_model import Step
from tests.pipeline.kubeflow.conftest import write_package


@pytest.fixture
def call(server, capsys):
    """Calls the command line against the server; returns exit code, output and errors."""

    def call(*words):
        code = parser.main([*map(str, words), "--host", server.url, "--timeout", "5"])
        out, err = capsys.readouterr()
        return code, out, err

    return call


def _json(answer):
    code, out, _ = answer
    assert code == 0, out
    return json.loads(out)


def _submit(call, package_path, *words):
    return call("submit", package_path, "--param", "data_path=/data", *words)


def test_submitting_a_compiled_file_prints_the_link(server, call, package_path):
    code, out, err = _submit(call, package_path, "--param", "train_steps=5", "--experiment", "trials")
    assert code == 0
    [run] = server.state.runs.values()
    assert out == f"run {run['run_id']}\n{server.url}/#/runs/details/{run['run_id']}\n"
    assert run["runtime_config"]["parameters"] == {"data_path": "/data", "train_steps": 5}
    assert "pipeline | version digits-" in err and "uploaded" in err
    assert "is there already" in _submit(call, package_path)[2]
    assert [e["display_name"] for e in server.state.experiments.values()] == ["trials", "digits"]


def test_waiting_shows_the_steps_and_ends_with_the_state(call, package_path):
    code, out, err = _submit(call, package_path, "--wait", "--poll", "0")
    assert code == 0 and re.match(r"run \S+ succeeded\n", out)
    assert "step | trainer running" in err and "step | trainer succeeded in 30 s" in err


def _let_trainer_write(server, text):
    """Let the trainer of the next run have written a log when it fails."""
    end = server.state.end_run

    def end_and_write(run, state):
        end(run, state)
        server.write_log(run["run_id"], "trainer", text)

    server.state.end_run = end_and_write


def test_a_failed_run_names_the_step_and_ends_with_3(server, call, package_path):
    server.state.failing_step = "trainer"
    _let_trainer_write(server, "I1101 1 launcher_v2.go:9] x\nTraceback\nValueError: no images")
    code, out, err = _submit(call, package_path, "--wait", "--poll", "0")
    assert code == 3
    assert re.match(r"run \S+ failed: step trainer failed: see its log\n", out)
    assert out.endswith("the end of the log of trainer:\nTraceback\nValueError: no images\n")
    assert "step trainer failed: see its log" in err
    code, out, _ = _submit(call, package_path, "--wait", "--poll", "0", "--json")
    assert code == 3 and json.loads(out)["state"] == "failed"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--param", "train_stepz=5"], "--param: no parameter train_stepz; did you mean train_steps?"),
        (["--set", "a=b"], "expected no --set for a compiled pipeline"),
        (["--token-env", "NOT_SET"], "token_env: the environment variable NOT_SET is not set"),
        (["--token-file", "/no/file"], "token_file: cannot read the token"),
    ],
)
def test_a_mistake_is_one_line_before_anything_is_made(server, call, package_path, words, message):
    code, out, err = _submit(call, package_path, *words)
    assert (code, out) == (2, "")
    assert message in err and "Traceback" not in err and err.count("\n") == 1
    assert not server.state.pipelines


def test_a_server_that_is_not_there_is_one_line(package_path, capsys):
    words = [
        "submit",
        package_path,
        "--param",
        "data_path=x",
        "--host",
        "http://127.0.0.1:1",
        "--timeout",
        "2",
    ]
    assert parser.main(words) == 2
    err = capsys.readouterr().err
    assert err.startswith(
        "detflow: ClusterError: http://127.0.0.1:1: asking for the server's health: nothing"
    )
    assert err.count("\n") == 1


def test_a_settings_file_is_compiled_and_submitted(server, digits_settings, capsys):
    with open(digits_settings, "a", encoding="utf-8") as f:
        f.write(f"kubeflow: {{host: '{server.url}', experiment: trials, service_account: robot}}\n")
    words = ["submit", digits_settings, "--set", "train_config.num_steps=3", "--param", "train_steps=7"]
    assert parser.main(words) == 0
    [run] = server.state.runs.values()
    assert run["runtime_config"]["parameters"] == {"train_steps": 7} and run["service_account"] == "robot"
    assert [e["display_name"] for e in server.state.experiments.values()] == ["trials"]
    version = server.state.versions[run["pipeline_version_reference"]["pipeline_version_id"]]
    assert "num_steps: 3" in json.dumps(version["pipeline_spec"])
    capsys.readouterr()
    assert parser.main(["runs", "show", run["run_id"], "--settings", digits_settings]) == 0
    assert "trainer" not in capsys.readouterr().out.splitlines()[0]


def test_credentials_are_named_in_the_settings_and_never_written_there(
    server, digits_settings, tmp_path, monkeypatch, capsys
):
    server.token = "topsecret"
    monkeypatch.setenv("MY_TOKEN", "topsecret")
    with open(digits_settings, "a", encoding="utf-8") as f:
        f.write(f"kubeflow:\n  host: {server.url}\n  connection: {{token_env: MY_TOKEN, timeout: 5}}\n")
    assert parser.main(["runs", "list", "--settings", digits_settings]) == 0
    assert capsys.readouterr().out == "no runs yet\n"
    token = tmp_path / "token"
    token.write_text("another")
    assert parser.main(["runs", "list", "--settings", digits_settings, "--token-file", str(token)]) == 2
    assert f"credentials from {token} were not accepted (401)" in capsys.readouterr().err


def test_runs_are_listed_shown_cancelled_and_retried(server, call, package_path):
    run_id = _json(_submit(call, package_path, "--json"))["run_id"]
    [listed] = _json(call("runs", "list", "--json"))
    assert listed["run_id"] == run_id and listed["state"] == "running"
    assert run_id in call("runs")[1]
    assert "pusher" in call("runs", "show", run_id)[1]
    assert _json(call("runs", "cancel", run_id, "--json"))["state"] == "cancelled"
    code, _, err = call("runs", "cancel", run_id)
    assert code == 2 and "the run was cancelled already; nothing to stop" in err
    assert "cancelled" in call("runs", "list")[1]
    code, out, _ = call("runs", "retry", run_id, "--wait", "--poll", "0")
    assert code == 0 and "succeeded" in out
    code, _, err = call("runs", "show", "nope")
    assert code == 2 and "reading the run nope: refused (404: Run nope not found)" in err


def test_the_log_of_a_step(server, call, package_path):
    server.state.failing_step = "pusher"
    run_id = _json(_submit(call, package_path, "--json"))["run_id"]
    call("runs", "retry", run_id)
    for _ in range(3):
        call("runs", "show", run_id)
    server.write_log(run_id, "pusher", "I1101 1 launcher_v2.go:9] x\nthe end")
    assert call("runs", "log", run_id)[1] == "the end\n"
    assert "launcher_v2" in call("runs", "log", run_id, "--launcher")[1]
    assert (
        "the server keeps no log of example-gen; see http"
        in call("runs", "log", run_id, "--step", "example-gen")[1]
    )
    assert call("runs", "log", run_id, "--step", "trainer")[1] == "trainer was not run; it has no log\n"
    code, _, err = call("runs", "log", run_id, "--step", "nope")
    assert code == 2 and "expected a step with --step, found nope; the run has example-gen, pusher" in err


def test_a_run_that_somebody_stops_ends_with_4(server, call, package_path):
    server.misbehave("GET .*/runs/.*", lambda: server.state.terminate(next(iter(server.state.runs))))
    code, out, err = _submit(call, package_path, "--wait", "--poll", "0")
    assert code == 4 and re.match(r"run \S+ cancelled\nhttp", out)
    assert "failed" not in out + err


def test_steps_inside_others_are_shown_under_them(server, call, package_path):
    inside = [Step(name="probe", phase="Cached"), Step(name="probe-2", failed_attempts=1)]
    server.state.outcomes = {"example-gen": {"inside": inside}, "pusher": {"phase": "Cached"}}
    run_id = _json(_submit(call, package_path, "--json"))["run_id"]
    for _ in range(3):
        out = call("runs", "show", run_id)[1]
    assert out.split("\n\n")[1].splitlines() == [
        "step         state      seconds  attempts",
        "example-gen  succeeded  30       1",
        "  probe      cached     -        -",
        "  probe-2    succeeded  30       2",
        "pusher       cached     -        -",
        "trainer      succeeded  30       1",
    ]


def test_interrupting_the_waiting_leaves_the_run_alone(server, call, package_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("pipeline.kubeflow.runs.wait_for", interrupted)
    code, _, err = _submit(call, package_path, "--wait")
    [run_id] = server.state.runs
    assert code == 130
    assert f"{run_id} continues; `detflow runs cancel {run_id}` stops it" in err


def test_every_option_of_a_connection_is_a_flag_with_the_meaning_of_its_setting():
    flags = {words for argument in server_arguments() for words in argument.flags}
    options = {name.replace("_", "-") for name in ConnectionOptions.model_fields}
    assert flags == {f"--{name}" for name in options - {"verify-tls"}} | {"--no-verify-tls"}
    for argument in server_arguments():
        name = argument.options.get("dest") or argument.flags[0].removeprefix("--").replace("-", "_")
        assert ConnectionOptions.model_fields[name].description in argument.options["help"]


def test_the_scheduled_time_of_a_run_is_refused_on_an_older_server(server, call, package_path):
    server.version = "2.16.1"
    code, _, err = call("submit", package_path, "--param", "data_path=/d/[[ScheduledTime]]")
    assert code == 2 and "expected a server 2.17 or newer for [[ScheduledTime]], found 2.16.1" in err
    assert not server.state.pipelines


def test_a_run_that_could_not_begin_is_shown_with_the_cause(server, call, package_path):
    server.state.failing_root = True
    end = server.state.end_run

    def end_and_write(run, state):
        end(run, state)
        log = "I1123 10:00:00.1 18 main.go:333] input:{\n  1\n}\n"
        log += "F1123 10:00:00.2 18 main.go:127] KFP driver: no bucket"
        server.write_log(run["run_id"], "root", log, driver=True)

    server.state.end_run = end_and_write
    code, out, _ = _submit(call, package_path, "--wait", "--poll", "0")
    said = "step root failed: Kubeflow's driver could not prepare it: KFP driver: no bucket"
    assert code == 3 and said in out.splitlines()[0]
    [run_id] = server.state.runs
    assert said in call("runs", "show", run_id)[1].splitlines()
    assert call("runs", "log", run_id)[1].strip() == "F1123 10:00:00.2 18 main.go:127] KFP driver: no bucket"


def test_a_pod_that_waits_is_shown_with_where_to_look(server, call, package_path):
    server.state.waiting_step = "example-gen"
    _submit(call, package_path)
    [run_id] = server.state.runs
    out = call("runs", "show", run_id)[1]
    assert re.search(r"example-gen +waiting for its pod", out)
    assert "`kubectl -n kubeflow describe pod -l workflows.argoproj.io/workflow=digits-" in out


def test_as_many_lines_of_a_log_as_asked_for(server, call, package_path):
    _let_trainer_write(server, "\n".join(f"line {i}" for i in range(100)))
    server.state.failing_step = "trainer"
    _submit(call, package_path, "--wait", "--poll", "0")
    [run_id] = server.state.runs
    for words, lines in (([], 25), (["--lines", "7"], 7), (["--lines", "1000"], 100)):
        assert len(call("runs", "log", run_id, *words)[1].splitlines()) == lines
    code, _, err = call("runs", "log", run_id, "--lines", "0")
    assert code == 2 and "--lines: expected 1 or more, found 0" in err


@pytest.mark.parametrize("verb", [["submit"], ["schedule", "create", "--cron", "@daily"]])
def test_a_name_that_is_too_long_is_refused_before_anything_is_made(server, call, tmp_path, verb):
    path = write_package(tmp_path, name="a" * 111)
    code, _, err = call(*verb, path, "--param", "data_path=/d")
    assert code == 2 and "pipeline's name: expected 110 characters at most, found 111" in err
    path = write_package(tmp_path)
    code, _, err = call(*verb, path, "--param", "data_path=/d", "--experiment", "e" * 300)
    assert code == 2 and "experiment's name: expected 128 characters at most, found 300" in err
    assert not server.state.pipelines and not server.state.experiments
