from detection_core.builders.calibration import CALIBRATIONS
from detection_core.builders.oneof import build_oneof
from detection_core.protos.box_coder_pb2 import BoxCoder
from detection_core.protos.calibration_pb2 import CalibrationConfig
from tests.support.cases import config_refused


def test_value_and_places():
    message = BoxCoder()
    arguments = (message, "box_coder_oneof", {}, "a.b")
    config_refused(r"^a\.b: .*found none", build_oneof, *arguments)
    message.square_box_coder.y_scale = 3
    assert build_oneof(message, "box_coder_oneof", {"square_box_coder": lambda arm: arm.y_scale}) == 3
    message.square_box_coder.y_scale = 0
    pattern = r"^a\.b\.square_box_coder\.y_scale: expected a number above 0"
    config_refused(pattern, build_oneof, *arguments)
    calibrated = CalibrationConfig()
    calibrated.sigmoid_calibration.SetInParent()
    pattern = r"^c\.sigmoid_calibration: .*use function_approximation"
    config_refused(pattern, build_oneof, calibrated, "calibrator", CALIBRATIONS, "c")
