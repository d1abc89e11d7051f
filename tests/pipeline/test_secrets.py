"""No secret leaves the process: sentinels, searched for in logs, records, reports, packages and messages."""

import dataclasses
import json
import logging
from unittest import mock

import pytest

from detection_core import redaction
from detection_core.artifacts.run_info import StepInfo
from detection_core.errors import ConfigError, DataError
from detection_core.redaction import hide
from pipeline.cli import parser
from pipeline.console import file_log, start_logging
from pipeline.kubeflow.kfp_backend import render_pipeline
from pipeline.local.workspace import Workspace
from pipeline.report.writer import write_report
from pipeline.settings.settings_file import load_settings
from tests.pipeline.golden import SETTINGS
from tests.support.cases import refused
from tests.support.compiled import with_short_stack
from tests.support.fixture_run import write_run
from tests.support.refusals import not_refused

_TOKEN, _KEY = "tok-SENTINEL-1a2b", "sEcReT-SENTINEL/abc+def"
_ADDRESS = "http://user:pass-SENTINEL@127.0.0.1:9"
_TOLD = f"{_TOKEN} {_KEY} {_ADDRESS} {json.dumps(_KEY)} {_TOKEN!r}"


@pytest.fixture(autouse=True)
def secrets(monkeypatch):
    monkeypatch.setattr(redaction, "_hidden", {})
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", _KEY)
    hide(_TOKEN)


def test_logs_on_the_terminal_and_in_files_tell_none(tmp_path, capsys):
    start_logging()
    path = tmp_path / "log.txt"
    with file_log(str(path)):
        try:
            raise ValueError(_TOLD)
        except ValueError:
            logging.getLogger("pipeline.x").exception("went wrong: %s", _TOLD)
    for text in (capsys.readouterr().err, path.read_text()):
        assert "went wrong" in text and "Traceback" in text and "SENTINEL" not in text


def test_messages_tell_none(capsys, monkeypatch):
    def command(_):
        raise DataError(_TOLD, where=_ADDRESS)

    monkeypatch.setattr("pipeline.cli.cluster.list_runs", command)
    verbs = parser.build_parser()
    for words in (["runs", "list"], ["runs", "list", "--json"]):
        arguments = verbs.parse_args(words)
        arguments.command = command
        parsed = mock.Mock(parse_args=mock.Mock(return_value=arguments))
        monkeypatch.setattr(parser, "build_parser", lambda parsed=parsed: parsed)
        assert parser.main(words) == 2
        out, err = capsys.readouterr()
        assert "***" in out + err and "SENTINEL" not in out + err


def test_records_and_reports_tell_none(tmp_path):
    whole = write_run(tmp_path / "run", images=4)
    failed = StepInfo(id="trainer", component="trainer", state="failed", error=_TOLD)
    fields = {"status": "failed", "settings_text": f"data: {_TOLD}\n", "checks": {"found": _TOLD}}
    run = dataclasses.replace(whole, steps=(*whole.steps[:1], failed), **fields)
    Workspace(str(tmp_path / "workspace")).write_info(run)
    written = list((tmp_path / "workspace").rglob("run.json"))
    assert written and all("SENTINEL" not in p.read_text() for p in written)
    assert json.loads(written[0].read_text())["status"] == "failed", "it is still a record"
    write_report(run, str(tmp_path / "report.html"))
    report = (tmp_path / "report.html").read_text()
    assert "SENTINEL" not in report and "Failed at trainer" in report


SECRETS = [
    f"kubeflow.host={_ADDRESS}",
    f"kubeflow.connection.ui_host={_ADDRESS}",
    "kubeflow.defaults.env={AWS_SECRET_ACCESS_KEY: other-SENTINEL}",
    "kubeflow.steps.trainer={env: {MY_PASSWORD: other-SENTINEL}}",
    f"kubeflow.defaults.env={{HARMLESS: {_KEY}}}",
    f"kubeflow.defaults.env={{PIP_INDEX_URL: '{_ADDRESS}'}}",
]
ADDRESSES = [
    "data.path=s3://AKIASENTINEL:sEc/SENTINEL@bucket/data",
    "data.shards_uri=gs://bucket/shards?token=SENTINEL",
    "push.destination=s3://AKIASENTINEL:SENTINEL@bucket/models",
    "train.weights_mirror=https://name:pass-SENTINEL@mirror/w",
    "train.weights_mirror=https://mirror/w?sv=1&sig=SENTINEL",
    "train_input_reader.label_map_path=s3://AKIASENTINEL:SENTINEL@bucket/m",
]


def test_settings_with_a_secret_are_refused_without_telling_it():
    """Addresses with credentials, too, as records would show them."""

    def load(override):
        load_settings(str(SETTINGS), [override], check_files=False)

    silent = r"(?s)\A(?!.*SENTINEL).*"
    told = r"(without user and password|expected no secret, which)"
    cases = [(override, silent + told) for override in SECRETS]
    cases += [("notify.webhook_env=https://hooks/SENTINEL", silent + "expected the variable that holds")]
    cases += [(override, f"{silent}expected an address without credentials") for override in ADDRESSES]
    assert not not_refused(load, cases, ConfigError)
    load("kubeflow.defaults.env={GOOGLE_APPLICATION_CREDENTIALS: /secret/key.json, TOKEN_FILE: t}")  # paths


@pytest.mark.slow
def test_packages_hold_none():
    for secret in (_KEY, _ADDRESS):
        settings = load_settings(str(SETTINGS), [f"push.destination=/models/{secret}"], check_files=False)
        message = r"(?s)\A(?!.*SENTINEL).*expected no secret in settings and pipeline.config"
        refused(ConfigError, message, with_short_stack, render_pipeline, settings)
