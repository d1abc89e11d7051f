import pytest

from component_specs import DataValidatorJob, TrainerJob
from component_specs.annotations import job_fields
from component_specs.data_validator import CHECKS
from component_specs.kfp_outputs import KFP_OUTPUTS
from tests.component_specs.contract import carried, wiring


def test_what_it_takes_and_gives():
    assert wiring("data_validator", DataValidatorJob) == {
        "examples": "Examples",
        "pipeline_config": "PipelineConfig",
        "baseline": "Model?",
        "statistics": "ExampleStatistics",
        "schema": "Schema",
        "anomalies": "ExampleAnomalies",
        "blessing": "DataBlessing",
    }


def test_equal_checks_are_one_text():
    checks = {"leakage": {"severity": "stop", "threshold": 0.1}, "duplicates": {}}
    text = '{"duplicates": {}, "leakage": {"severity": "stop", "threshold": 0.1}}'
    assert carried(DataValidatorJob, checks=checks)["checks"] == text and CHECKS.decode(text) == checks
    with pytest.raises(ValueError, match="severity"):
        CHECKS.decode('{"leakage": "stop"}')


def test_its_verdict_travels_as_the_parameter_that_trainer_takes():
    taken = job_fields(TrainerJob).parameters["stop_reasons"]
    assert KFP_OUTPUTS["data_validator"].results["stop_reasons"] == taken.codec and taken.default == ""
