"""The verb that tells which layers int8 harms."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from detection_core.artifacts.coco_names import MAP, MAP_50
from detection_core.artifacts.sensitivity_report import SENSITIVITY, Sensitivity
from detection_core.report.formats import DASH
from detection_core.tasks import quantization_sensitivity as task
from pipeline.cli.parser import main
from tests.detection_core.artifacts.test_sensitivity_report import sensitivity


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list:
    """What the task was called with; it gives a result that was measured before."""
    calls: list = []

    def measure(*arguments):
        calls.append(arguments)
        return known()

    monkeypatch.setattr(task, "measure_sensitivity", measure)
    return calls


def known() -> Sensitivity:
    """What a detector was measured at."""
    found = sensitivity()
    accuracy = dataclasses.replace(
        found.accuracy,
        float_metrics={MAP: 0.5, MAP_50: 0.75},
        quantized_metrics={MAP: 0.25, MAP_50: 0.5},
        groups=[dataclasses.replace(found.accuracy.groups[0], metrics={MAP: 0.375, MAP_50: 0.625})],
    )
    return dataclasses.replace(found, accuracy=accuracy)


def words(tmp_path: Path, *more: str) -> list[str]:
    return ["sensitivity", "--model", "m", "--examples", "e", "--output", str(tmp_path / "out"), *more]


def test_table_and_file(tmp_path, capsys, asked):
    assert main(words(tmp_path, "--images", "7", "--representative-examples", "9", "--split", "test")) == 0
    text = capsys.readouterr().out
    assert SENSITIVITY.read(str(tmp_path / "out")) == known()
    options = task.SensitivityOptions(examples=9, split="test", images=7)
    assert asked == [("m", "e", options)]
    rows = [line.split() for line in text.splitlines()]
    assert ["nothing", "0", "0.250", DASH, "0.500"] in rows
    assert ["box", "head", "4", "0.375", "+0.125", "0.625"] in rows
    assert ["everything", "4", "0.500", "+0.250", "0.750"] in rows
    stem = next(row for row in rows if row[:1] == ["stem"])
    assert stem[-7:] == ["31.5", "30.2", "0.01", "0.5", "-1", "to", "6"]


def test_json_and_layers_alone(tmp_path, capsys, asked):
    assert main(words(tmp_path, "--no-accuracy", "--json")) == 0
    assert json.loads(capsys.readouterr().out)["schema_version"] == 1
    assert not asked[0][2].accuracy


def test_a_wrong_number_is_one_message_and_nothing_is_written(tmp_path, capsys):
    assert main(words(tmp_path, "--images", "-1")) == 2
    assert "images: expected a number from 0, found -1" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
