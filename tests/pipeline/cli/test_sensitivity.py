from unittest import mock

from detection_core.artifacts.coco_names import MAP, MAP_50
from detection_core.artifacts.quantization import QuantizationSettings
from detection_core.artifacts.sensitivity_report import (
    SENSITIVITY,
    Accuracy,
    FloatGroup,
    LayerError,
    Sensitivity,
)
from detection_core.report.formats import DASH
from detection_core.tasks import quantization_sensitivity as task

LAYER = LayerError(
    layer="stem", kind="Conv2D", group="backbone, stride 2", own_db=31.5, total_db=30.25, mean_error=0.01,
    largest_error=0.5, range=(-1.0, 6.0),
)  # fmt: skip
ACCURACY = Accuracy(
    split="eval",
    images=3,
    float_metrics={MAP: 0.5, MAP_50: 0.75},
    quantized_metrics={MAP: 0.25, MAP_50: 0.5},
    groups=[FloatGroup(group="box head", layers=4, metrics={MAP: 0.375, MAP_50: 0.625}, gained=0.125)],
)
MEASURED = Sensitivity(
    settings=QuantizationSettings(delay=0, weight_bits=8, activation_bits=8, symmetric=False),
    examples=8,
    layers=[LAYER],
    accuracy=ACCURACY,
)


def test_table_file_and_json(tmp_path, cli, monkeypatch):
    words = ["sensitivity", "--model", "m", "--examples", "e", "--output", tmp_path / "out"]
    assert "images: expected a number from 0, found -1" in cli.refused(*words, "--images", "-1")
    assert not (tmp_path / "out").exists()
    measure = mock.Mock(return_value=MEASURED)
    monkeypatch.setattr(task, "measure_sensitivity", measure)
    text = cli(*words, "--images", "7", "--representative-examples", "9", "--split", "test")
    assert SENSITIVITY.read(str(tmp_path / "out")) == MEASURED
    rows = [line.split() for line in text.splitlines()]
    assert ["nothing", "0", "0.250", DASH, "0.500"] in rows
    assert ["box", "head", "4", "0.375", "+0.125", "0.625"] in rows
    assert ["everything", "4", "0.500", "+0.250", "0.750"] in rows
    stem = next(row for row in rows if row[:1] == ["stem"])
    assert stem[-7:] == ["31.5", "30.2", "0.01", "0.5", "-1", "to", "6"]
    assert cli.json(*words, "--no-accuracy")["schema_version"] == 1
    options = task.SensitivityOptions(examples=9, split="test", images=7)
    first, second = (call.args for call in measure.call_args_list)
    assert first == ("m", "e", options) and options.accuracy and not second[2].accuracy
