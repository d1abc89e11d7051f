import numpy as np
import pytest
from google.protobuf import text_format

from detection_core.builders.calibration import CALIBRATIONS, build_calibration
from detection_core.config.messages.table import RULES
from detection_core.errors import ConfigError
from detection_core.protos import calibration_pb2
from tests.detection_core.ops import test_calibration as ops_test
from tests.support.cases import cases
from tests.support.golden_cases import GoldenCase, load_cases

CASES = load_cases(ops_test.__file__, "calibration")
BUILT = [case for case in CASES.values() if case.outputs]
# A field that the schema does not have at all is a matter of parsing.
REFUSED = [case for case in CASES.values() if case.error and case.error != "ParseError"]


def _message(text: str) -> calibration_pb2.CalibrationConfig:
    return text_format.Parse(text, calibration_pb2.CalibrationConfig())


@cases(*BUILT)
def test_golden(*, case: GoldenCase):
    found = build_calibration(_message(case.config)).function(case.inputs["scores"])
    np.testing.assert_allclose(found, case.outputs["calibrated"], rtol=1e-5, atol=1e-6)


@cases(*REFUSED)
def test_golden_refusals(*, case: GoldenCase):
    with pytest.raises(ConfigError):
        build_calibration(_message(case.config))


def test_every_supported_arm_has_a_golden():
    assert {case.config.split()[0] for case in BUILT} == set(CALIBRATIONS)


@cases(*sorted(RULES["CalibrationConfig"].refused))
def test_unsupported_arm_says_what_to_use(*, arm):
    with pytest.raises(ConfigError, match="function_approximation"):
        build_calibration(_message(arm + " {}"))


def test_points_out_of_order_are_pointed_out(caplog):
    build_calibration(_message(CASES["function_approximation_unsorted"].config))
    assert "rising" in caplog.text


def test_curve_without_points():
    with pytest.raises(ConfigError, match="x_y_pair"):
        build_calibration(_message("function_approximation {}"))
