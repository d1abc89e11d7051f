import numpy as np

from detection_core.builders.calibration import CALIBRATIONS, build_calibration
from detection_core.protos.calibration_pb2 import CalibrationConfig
from tests.support.cases import config_refused
from tests.support.configs import parsed
from tests.support.golden_cases import cases_of

CASES = cases_of("detection_core/ops", "calibration")
BUILT = [case for case in CASES.values() if case.outputs]


def _build(text):
    return build_calibration(parsed(CalibrationConfig, text))


def test_goldens_points_out_of_order_and_what_the_reference_refuses(caplog):
    for case in BUILT:
        found = _build(case.config).function(case.inputs["scores"])
        expected = case.outputs["calibrated"]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6, err_msg=case.name)
    assert {case.config.split()[0] for case in BUILT} == set(CALIBRATIONS)
    _build(CASES["function_approximation_unsorted"].config)
    assert "rising" in caplog.text
    # A field that the schema does not have at all is a matter of parsing.
    for case in CASES.values():
        if case.error and case.error != "ParseError":
            config_refused("", _build, case.config)
