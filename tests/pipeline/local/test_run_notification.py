"""Notifications of local runs, to a webhook on this machine."""

import os
import re
import shlex
from pathlib import Path

import pytest

from detection_core.artifacts.evaluation import MAP, METRICS, EvalReport
from detection_core.artifacts.published import PUSHED, PushReport
from pipeline.local.run_notification import notifying
from pipeline.settings.settings_file import load_settings
from tests.support.cases import refused
from tests.support.local_server import posted_json
from tests.support.run_records import record, step

PAGE = Path(__file__).parents[3] / "docs" / "kubeflow.md"
SECRET = "/services/T0SENTINEL/B0SENTINEL"
SETTINGS = ("notify.webhook_env=HOOK", "notify.kind=generic")


@pytest.fixture
def sent(monkeypatch):
    with posted_json() as (address, found):
        monkeypatch.setenv("HOOK", f"{address}{SECRET}")
        yield found


def _ended(folder, pusher="executed", *, pushed=True, version=7):
    outputs = {"pushed_model": str(folder / "pushed"), "evaluation": str(folder / "evaluation")}
    PUSHED.write(outputs["pushed_model"], PushReport(pushed=pushed, version=version, reasons=["why"]))
    METRICS.write(outputs["evaluation"], EvalReport(metrics={MAP: 0.5}, baseline={MAP: 0.25}))
    steps = (step("evaluator", outputs=outputs), step("pusher", pusher, outputs=outputs))
    return record(*steps, run_id="r-1", workspace=str(folder))


def test_a_published_and_a_refused_model_are_news_and_a_repeated_run_is_not(digits_settings, sent, tmp_path):
    settings = load_settings(digits_settings, SETTINGS)
    for fields in ({}, {"pusher": "cached"}, {"pushed": False}, {"pushed": False, "version": None}):
        with notifying(settings, scheduled=False) as observe:
            observe(_ended(tmp_path, **fields))
    published, refusal = sent
    assert published == {
        "pipeline": "digits", "run_id": "r-1", "verdict": "published", "version": 7, "map": 0.5,
        "map_change": 0.25, "reasons": ["why"], "report": f"{settings.workspace}/runs/r-1/report.html",
    }  # fmt: skip
    assert (refusal["verdict"], refusal["reasons"]) == ("refused", ["why"])


def _fail(settings, error, *, scheduled=False, states=()):
    with notifying(settings, scheduled=scheduled) as observe:
        for state in states:
            observe(state)
        raise error


def test_a_failure_is_news_with_its_step_unless_interrupted_or_watched(digits_settings, sent):
    settings = load_settings(digits_settings, SETTINGS)
    run = record(step("trainer", "failed", error="x"), status="failed", run_id="r-2")
    refused(ValueError, "no", _fail, settings, ValueError("no"), states=[run])
    refused(KeyboardInterrupt, "", _fail, settings, KeyboardInterrupt(), states=[run])
    refused(ValueError, "no", _fail, settings, ValueError("no"))
    refused(ValueError, "no", _fail, settings, ValueError("no"), scheduled=True)
    first, second = sent
    assert (first["verdict"], first["run_id"]) == ("failed", "r-2")
    assert first["reasons"] == ["trainer: ValueError: no"]
    assert (second["run_id"], second["report"], second["reasons"]) == ("", "", ["ValueError: no"])


def test_without_the_setting_or_with_a_damaged_artifact_a_run_ends_as_it_would(
    digits_settings, sent, tmp_path, caplog
):
    with notifying(load_settings(digits_settings), scheduled=True) as observe:
        observe(_ended(tmp_path))
    run = _ended(tmp_path)
    (tmp_path / "pushed" / PUSHED.name).write_text("{")
    with notifying(load_settings(digits_settings, SETTINGS), scheduled=True) as observe:
        observe(run)
    assert not sent and "notify | nobody was notified" in caplog.text


def test_the_command_of_the_page_notifies_of_a_failure_and_no_record_has_the_address(
    digits_settings, cli, sent, tmp_path, monkeypatch
):
    section = PAGE.read_text(encoding="utf-8").split("## Be notified")[1].split("\n## ")[0]
    (variable,) = re.findall(r"^export (\w+)=", section, re.MULTILINE)
    (command,) = re.findall(r"^detflow (.*)$", section, re.MULTILINE)
    monkeypatch.setenv(variable, os.environ["HOOK"])
    words = shlex.split(command.replace("examples/digits/settings.yaml", digits_settings))
    cli(*words, "--set", f"workspace={tmp_path}/w", code=2)
    (message,) = sent
    assert message["verdict"] == "failed" and message["reasons"][0].startswith("DataError: ")
    written = [path for path in (tmp_path / "w" / "runs").rglob("*") if path.is_file()]
    assert {path.name for path in written} >= {"run.json", "settings.yaml", "log.txt", "report.html"}
    assert message["report"] in map(str, written)
    assert not any("SENTINEL" in path.read_text() for path in written) and "SENTINEL" not in cli.err
