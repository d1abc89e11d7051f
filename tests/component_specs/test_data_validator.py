import pytest

from component_specs import DataValidatorJob, TrainerJob
from component_specs.annotations import job_fields
from component_specs.data_validator import CHECKS
from component_specs.kfp_outputs import KFP_OUTPUTS
from tests.component_specs.contract import carried


def test_equal_checks_are_one_text():
    checks = {"leakage": {"severity": "stop", "threshold": 0.1}, "duplicates": {}}
    text = '{"duplicates": {}, "leakage": {"severity": "stop", "threshold": 0.1}}'
    assert carried(DataValidatorJob, checks=checks)["checks"] == text and CHECKS.decode(text) == checks
    with pytest.raises(ValueError, match="severity"):
        CHECKS.decode('{"leakage": "stop"}')
    taken = job_fields(TrainerJob).parameters["stop_reasons"]
    assert KFP_OUTPUTS["data_validator"].results["stop_reasons"] == taken.codec and taken.default == ""
