"""sensitivity.json."""

import dataclasses

from detection_core.artifacts.quantization import QuantizationSettings
from detection_core.artifacts.sensitivity_report import (
    SENSITIVITY,
    Accuracy,
    FloatGroup,
    LayerError,
    Sensitivity,
)


def sensitivity() -> Sensitivity:
    """A layer with errors, one that is 0 throughout, and a part left in float."""
    layer = LayerError(
        layer="stem", kind="Conv2D", group="backbone, stride 2", own_db=31.5, total_db=30.25,
        mean_error=0.01, largest_error=0.5, range=(-1.0, 6.0),
    )  # fmt: skip
    dead = dataclasses.replace(layer, layer="dead", own_db=None, total_db=None)
    accuracy = Accuracy(
        split="eval", images=3, float_metrics={"mAP": 0.5}, quantized_metrics={"mAP": 0.25},
        groups=[FloatGroup(group="box head", layers=4, metrics={"mAP": 0.375, "small": None}, gained=0.125)],
    )  # fmt: skip
    settings = QuantizationSettings(delay=0, weight_bits=8, activation_bits=8, symmetric=False)
    return Sensitivity(settings=settings, examples=8, layers=[layer, dead], accuracy=accuracy)


def test_it_is_read_as_written(tmp_path):
    for value in (sensitivity(), dataclasses.replace(sensitivity(), accuracy=None)):
        SENSITIVITY.write(str(tmp_path), value)
        assert SENSITIVITY.read(str(tmp_path)) == value
    assert '"schema_version": 1' in (tmp_path / "sensitivity.json").read_text()
