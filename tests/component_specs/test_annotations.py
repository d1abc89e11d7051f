import dataclasses
from typing import Annotated

import pytest

from component_specs import JOBS, ExampleGenJob, TrainerJob
from component_specs.annotations import EXAMPLES, Input, Output, encode_parameters, job_fields
from tests.support.cases import cases


def test_roles_of_the_trainer():
    fields = job_fields(TrainerJob)
    assert set(fields.inputs) == {"examples", "pipeline_config", "warm_start"}
    assert fields.inputs["warm_start"].optional and not fields.inputs["examples"].optional
    assert set(fields.outputs) == {"model", "model_run"}
    assert (
        fields.parameters["overrides"].carried_as is str
        and fields.parameters["train_steps"].carried_as is int
    )
    assert fields.parameters["work_dir"].required and fields.parameters["code_version"].default == ""
    assert fields.parameters["overrides"].default == {} and not fields.parameters["overrides"].required


@cases(*JOBS)
def test_every_job_is_frozen_and_documents_each_field_and_its_defaults_travel(*, component):
    job, fields = JOBS[component], job_fields(JOBS[component])
    assert job.__dataclass_params__.frozen
    described = job.__doc__.split("Attributes:")[1]
    for field in dataclasses.fields(job):
        assert f"    {field.name}: " in described, f"{job.__name__}.{field.name} is not documented"
    for parameter in fields.parameters.values():
        if not parameter.required:
            carried = parameter.encode(parameter.default)
            assert type(carried) is parameter.carried_as and parameter.decode(carried) == parameter.default
        if example := getattr(parameter.codec, "example", ""):
            assert parameter.encode(parameter.decode(example))
    # A job that makes something has the version of its code.
    assert component == "run_checker" or (fields.outputs and fields.parameters["code_version"].default == "")


def test_the_parameters_of_a_job_travel_by_name():
    job = ExampleGenJob(
        examples="out", data_path="data", splits={"train": 0.8, "eval": 0.2}, beam_args=("--x",)
    )
    carried = encode_parameters(job)
    assert carried["splits"] == '{"eval": 0.2, "train": 0.8}' and carried["beam_args"] == '["--x"]'
    assert carried["spans"] == "" and carried["shard_examples"] == 1000
    assert "examples" not in carried


def test_a_parameter_that_no_backend_can_carry_is_refused():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class BadJob:
        examples: Annotated[str, Input(EXAMPLES)]
        made: Annotated[str, Output(EXAMPLES)]
        sizes: dict

    with pytest.raises(TypeError, match=r"BadJob\.sizes"):
        job_fields(BadJob)
