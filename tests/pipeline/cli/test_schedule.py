import os
import sys

import pytest

from tests.pipeline.kubeflow.conftest import write_package
from tests.support.command_line import CommandLine
from tests.support.python_traps import set_traps


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


def test_a_mistake_is_one_line_before_anything_is_made(server, create, words, tmp_path, cli):
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
    out = cli("schedule", "create", digits_settings, *more, *words)
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


def test_units_crontab_lines_and_previews_are_printed(digits_settings, tmp_path, cli):
    words = ["schedule", "run-local", digits_settings, "--set", "schedule.cron=@daily"]
    part = tmp_path / "part.config"
    units = cli(*words, "--print-systemd", "--override-file", part)
    assert f"run {digits_settings} --set schedule.cron=@daily --override-file {part}" in units
    assert "# digits.timer" in units
    line = cli(*words, "--print-crontab")
    assert f"\n0 0 * * * cd {os.getcwd()} && mkdir -p " in line
    # An editor puts another file in the place of the settings: a lock on them would be on none.
    assert ".cron.lock" in line and f"flock --nonblock {digits_settings}" not in line
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
