"""A component from outside is rendered as one of the package, under a name that no other has."""

import dataclasses
from typing import Annotated

import pytest
import yaml

from component_specs import JOBS
from component_specs.annotations import EVALUATION, MODEL, Input, Output
from component_specs.kfp_outputs import KFP_OUTPUTS
from component_specs.kfp_yaml import render
from component_specs.registration import entry_module, register_component, unregister_component


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraderJob:
    """Grades a model.

    Attributes:
        model: the model.
        evaluation: the grade.
        best: the best grade that there is.
    """

    model: Annotated[str, Input(MODEL)]
    evaluation: Annotated[str, Output(EVALUATION)]
    best: int = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class StrangeJob:
    """Has a parameter of a type that no backend carries.

    Attributes:
        when: anything.
    """

    when: complex


def test_it_is_rendered_with_its_own_module_under_a_name_that_is_given_once():
    register_component("grader", GraderJob, module="somebody.grader")
    try:
        _check_grader()
    finally:
        unregister_component("grader")


def _check_grader():
    component = yaml.safe_load(render("grader"))
    executor = component["deploymentSpec"]["executors"]["exec-grader"]["container"]
    assert executor["command"] == ["python", "-m", "somebody.grader"]
    inputs = component["root"]["inputDefinitions"]
    assert set(inputs["artifacts"]) == {"model"} and inputs["parameters"]["best"]["defaultValue"] == 10
    for name in ("grader", "trainer"):
        with pytest.raises(ValueError, match=f"'{name}', which is taken"):
            register_component(name, GraderJob, module="somebody.grader")


def test_a_contract_that_no_backend_carries_is_refused():
    with pytest.raises(TypeError, match="when"):
        register_component("strange", StrangeJob, module="somebody.strange")
    assert "strange" not in JOBS and "strange" not in KFP_OUTPUTS
    unregister_component("trainer")
    assert "trainer" in JOBS and entry_module("trainer") == "components.trainer"
