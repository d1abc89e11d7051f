"""The one function that reads a oneof and looks in a table."""

import pytest

from detection_core.builders.calibration import CALIBRATIONS
from detection_core.builders.oneof import build_oneof
from detection_core.errors import ConfigError
from detection_core.protos.box_coder_pb2 import BoxCoder
from detection_core.protos.calibration_pb2 import CalibrationConfig


def test_value_and_places():
    message = BoxCoder()
    with pytest.raises(ConfigError, match=r"^a\.b: .*found none"):
        build_oneof(message, "box_coder_oneof", {"x": lambda arm: 1}, "a.b")
    message.square_box_coder.y_scale = 3
    assert build_oneof(message, "box_coder_oneof", {"square_box_coder": lambda arm: arm.y_scale}) == 3
    message.square_box_coder.y_scale = 0
    with pytest.raises(ConfigError, match=r"^a\.b\.square_box_coder\.y_scale: expected a number above 0"):
        build_oneof(message, "box_coder_oneof", {}, "a.b")
    calibrated = CalibrationConfig()
    calibrated.sigmoid_calibration.SetInParent()
    with pytest.raises(ConfigError, match=r"^c\.sigmoid_calibration: .*use function_approximation"):
        build_oneof(calibrated, "calibrator", CALIBRATIONS, "c")
