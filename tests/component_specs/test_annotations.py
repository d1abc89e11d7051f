from __future__ import annotations

import dataclasses
from typing import Annotated

import pytest

from component_specs import JOBS, TrainerJob
from component_specs.annotations import EXAMPLES, Input, Output, job_fields


def test_roles_of_the_trainer():
    fields = job_fields(TrainerJob)
    assert set(fields.inputs) == {"examples", "pipeline_config", "warm_start"}
    assert fields.inputs["warm_start"].optional and not fields.inputs["examples"].optional
    assert set(fields.outputs) == {"model", "model_run"}
    assert fields.parameters["overrides"] is str
    assert "work_dir" not in fields.defaults and fields.defaults["code_version"] == ""


@pytest.mark.parametrize("component", JOBS)
def test_every_job_is_frozen_and_documents_each_field(component):
    job = JOBS[component]
    assert job.__dataclass_params__.frozen
    described = job.__doc__.split("Attributes:")[1]
    for field in dataclasses.fields(job):
        assert f"    {field.name}: " in described, f"{job.__name__}.{field.name} is not documented"


@pytest.mark.parametrize("component", [name for name in JOBS if name != "run_checker"])
def test_every_job_that_makes_something_has_a_code_version(component):
    fields = job_fields(JOBS[component])
    assert fields.outputs
    assert fields.defaults["code_version"] == ""


def test_a_parameter_that_no_backend_can_carry_is_refused():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class BadJob:
        examples: Annotated[str, Input(EXAMPLES)]
        made: Annotated[str, Output(EXAMPLES)]
        sizes: dict

    with pytest.raises(TypeError, match=r"BadJob\.sizes"):
        job_fields(BadJob)
