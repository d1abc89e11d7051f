from __future__ import annotations

import json
import os
import sys

import pytest

from pipeline.cli import parser
from tests.pipeline.kubeflow.conftest import write_package
from tests.support.python_traps import set_traps


@pytest.fixture
def call(server, capsys):
    """Calls `detflow schedule` against the server; returns exit code, output and errors."""

    def call(*words):
        code = parser.main(["schedule", *map(str, words), "--host", server.url, "--timeout", "5"])
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def create(call, package_path):
    def create(*words):
        return call("create", package_path, "--name", "nightly", "--param", "data_path=/d", *words)

    return create


def test_creating_shows_what_was_done_and_the_next_times(create):
    code, out, _ = create("--cron", "0 0 3 * * *")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "schedule nightly created" and "/#/recurringrun/details/" in lines[1]
    assert lines[3] == "next times, UTC:" and len([t for t in lines if t.endswith("T03:00:00+00:00")]) == 5
    assert create("--cron", "0 0 3 * * *")[1].startswith("schedule nightly unchanged\n")
    replaced = create("--interval", "6h", "--max-concurrency", "2")[1]
    assert replaced.startswith("schedule nightly replaced\n  cron: '0 0 3 * * *' -> ''\n")
    assert "  max_concurrency: 1 -> 2\n" in replaced


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--cron", "0 3 * * *"], "Write '0 0 3 * * *'"),
        ([], "expected one of schedule.cron"),
        (["--cron", "@daily", "--interval", "1h"], "found both"),
        (["--cron", "@daily", "--max-concurrency", "11"], "max_concurrency: expected 1 to 10, found 11"),
        (["--cron", "@daily", "--end", "2020-01-01T00:00:00Z"], "would never fire"),
        (["--cron", "@daily", "--param", "data_path=[[ScheduleTime]]"], "did you mean [[ScheduledTime]]?"),
        (["--cron", "@daily", "--param", "data_path=/d/[[Index]]"], "[[Index]] cannot be filled"),
        (["--cron", "@daily", "--param", "x=1"], "no parameter x"),
    ],
)
def test_a_mistake_is_one_line_before_anything_is_made(server, create, words, message):
    code, out, err = create(*words)
    assert (code, out) == (2, "")
    assert message in err and err.count("\n") == 1
    assert not server.requests


def test_a_settings_file_holds_the_schedule_and_flags_win(server, digits_settings, call):
    with open(digits_settings, "a", encoding="utf-8") as f:
        f.write(
            "schedule:\n  cron: '@daily'\n  paused: true\n  max_concurrency: 3\n"
            "  parameters: {train_steps: 9, data_path: '/d/[[ScheduledTime]]'}\n"
        )
    code, out, err = call("create", digits_settings, "--param", "train_steps=10", "--interval", "6h")
    assert code == 0, err
    assert out.startswith("schedule digits created; it is paused\n")
    [kept] = server.state.recurring.values()
    assert kept["trigger"] == {"periodic_schedule": {"interval_second": 21600}}
    assert kept["max_concurrency"] == "3" and kept["no_catchup"] is True
    assert kept["runtime_config"]["parameters"] == {"train_steps": 10, "data_path": "/d/[[ScheduledTime]]"}


def test_a_schedule_is_listed_shown_paused_resumed_run_and_deleted(server, create, call):
    assert call("list")[1] == "no schedules yet\n"
    create("--cron", "@daily", "--start", "2030-01-01T00:00:00Z")
    [listed] = json.loads(call("list", "--json")[1])
    assert listed["name"] == "nightly" and listed["start"] == "2030-01-01T00:00:00+00:00"
    assert "nightly  cron @daily  on" in call("list")[1]
    assert "2030-01-01T00:00:00+00:00 to open" in call("show", "nightly")[1]
    assert call("pause", "nightly")[1] == "schedule nightly paused\n"
    assert "paused" in call("list")[1]
    assert call("resume", "nightly")[1] == "schedule nightly resumed\n"
    code, out, _ = call("run-now", "nightly", "--param", "train_steps=3", "--json")
    [run] = server.state.runs.values()
    assert code == 0 and json.loads(out)["run"] == run["run_id"]
    assert run["runtime_config"]["parameters"] == {"data_path": "/d", "train_steps": 3}
    assert call("delete", "nightly")[1] == "schedule nightly deleted; its runs stay\n"
    code, _, err = call("show", "nightly")
    assert code == 2 and "no schedule nightly; there is none yet" in err


def test_a_preview_asks_no_server(digits_settings, capsys):
    words = ["schedule", "preview", digits_settings, "--set", "schedule.cron=0 0 3 ? * MON"]
    assert parser.main([*words, "--set", "schedule.time_zone=Europe/Paris"]) == 0
    assert "next times, Europe/Paris:" in capsys.readouterr().out
    assert parser.main([*words, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["next"]) == 5


def test_units_and_crontab_lines_are_printed(digits_settings, tmp_path, capsys):
    words = ["schedule", "run-local", digits_settings, "--set", "schedule.cron=@daily"]
    part = tmp_path / "part.config"
    assert parser.main([*words, "--print-systemd", "--override-file", str(part)]) == 0
    units = capsys.readouterr().out
    assert f"run {digits_settings} --set schedule.cron=@daily --override-file {part}" in units
    assert "# digits.timer" in units
    assert parser.main([*words, "--print-crontab"]) == 0
    line = capsys.readouterr().out
    assert f"\n0 0 * * * cd {os.getcwd()} && mkdir -p " in line
    # An editor puts another file in the place of the settings: a lock on them would be on none.
    assert ".cron.lock" in line and f"flock --nonblock {digits_settings}" not in line


def test_a_pipeline_that_fills_no_placeholders_gets_none(server, call, tmp_path):
    package = write_package(tmp_path, fills=False)
    words = ["--cron", "@daily", "--param", "data_path=/d/[[ScheduledTime]]"]
    code, _, err = call("create", package, *words)
    assert code == 2 and "this pipeline fills them in no parameter" in err
    assert not server.requests


def test_parameters_of_the_schedule_reach_the_runs_on_this_machine(digits_settings, capsys):
    with open(digits_settings, "a", encoding="utf-8") as f:
        f.write("schedule:\n  cron: '@daily'\n  parameters: {train_steps: 9, span: latest, image: a}\n")
    assert parser.main(["schedule", "run-local", digits_settings, "--print-systemd"]) == 0
    out, err = capsys.readouterr()
    assert f"run {digits_settings} --param train_steps=9 --param span=latest\n" in out
    assert "the parameter image is for a cluster" in err
    wrong = ["schedule", "run-local", digits_settings, "--set", "schedule.parameters={train_step: 9}"]
    assert parser.main([*wrong, "--print-systemd"]) == 2
    assert "no parameter train_step; did you mean train_steps?" in capsys.readouterr().err


def test_a_run_for_a_slot_has_its_time_in_the_place_of_placeholders(digits_settings, tmp_path, capsys):
    """The data folder does not exist: the first thing that a run looks at says what was filled in."""
    words = ["run", digits_settings, "--param", f"data_path={tmp_path}/[[ScheduledTime.2006-01-02]]"]
    assert parser.main([*words, "--scheduled-time", "2026-11-21T03:00:00+09:00"]) == 2
    assert f"{tmp_path}/2026-11-20/" in capsys.readouterr().err
    assert parser.main([*words, "--scheduled-time", "tomorrow"]) == 2
    assert "expected an RFC 3339 time" in capsys.readouterr().err
    assert parser.main(["run", digits_settings, "--set", "data.shards_uri=/s/[[RunUUID]]"]) == 2
    assert "example_gen: shards_uri: expected no placeholder" in capsys.readouterr().err


def test_the_schedule_runs_the_workflow_of_the_settings(digits_settings, capfd, monkeypatch, tmp_path):
    """The data folder is empty: the run itself fails at once, the schedule goes on to its end."""
    executed = set_traps(tmp_path / "started_in")
    monkeypatch.chdir(tmp_path / "started_in")
    monkeypatch.setattr(sys, "argv", ["detflow"])
    words = ["schedule", "run-local", digits_settings, "--set", "schedule.interval=1s", "--max-runs", "1"]
    assert parser.main([*words, "--set", "evaluate.split=test"]) == 0
    out, err = capfd.readouterr()
    assert out == "1 runs\n" and not executed.exists()
    assert "detflow: ConfigError: " in err or "DataError" in err
    assert "schedule | digits: every 1s" in err
    assert "schedule | run failed with exit code 2; the next slot tries again" in err


def test_the_scheduled_time_is_refused_on_an_older_server_before_anything_is_made(server, call, package_path):
    server.version = "2.16.1"
    words = ["--cron", "@daily", "--param", "data_path=/d/[[ScheduledTime]]"]
    code, _, err = call("create", package_path, *words)
    assert code == 2 and "expected a server 2.17 or newer for [[ScheduledTime]], found 2.16.1" in err
    assert not server.state.pipelines and not server.state.recurring
