"""Contracts as Kubeflow Pipelines and TFX have them, and of components from outside."""

import copy
import dataclasses
import json
from typing import Annotated

import pytest
import yaml

from component_specs import JOBS, annotations, kfp_outputs
from component_specs.annotations import EVALUATION, EXAMPLES, MODEL, ArtifactType, Input, Output, job_fields
from component_specs.example_gen import Spans
from component_specs.kfp_yaml import FOLDER, main, render
from component_specs.registration import entry_module, register_component
from tests.support.cases import cases
from tests.support.compiled_rules import find_faults
from tests.support.registrations import forget_component


def _mismatch(kind, name, value):
    theirs = copy.deepcopy(kfp_outputs.interface("evaluator"))
    theirs[kind][name] = value
    if value is None:
        del theirs[kind][name]
    return kfp_outputs.find_mismatch(theirs, "evaluator")


# An older YAML may lack what is optional.
@cases(
    ("parameters", "pictures", None, ""),
    ("inputs", "baseline", None, ""),
    ("views", "report", None, ""),
    ("inputs", "model", None, "input model is known here only"),
    ("outputs", "blessing", None, "output blessing is known here only"),
    ("parameters", "speed", "int?", "parameter speed is known there only"),
    ("outputs", "heat_map", "Heat", "output heat_map is known there only"),
    ("inputs", "baseline", "Examples?", "input baseline is Examples? there and Model? here"),
    ("parameters", "pictures", "str?", r"parameter pictures is str? there and int? here"),
)
def test_what_cannot_meet_is_named(*, kind, name, value, message):
    assert _mismatch(kind, name, value) == message
    assert (
        kfp_outputs.find_mismatch(kfp_outputs.interface("pusher"), "evaluator")
        == "it is for the component 'pusher'"
    )


def test_every_component_has_its_outputs_which_travel_as_the_parameters_that_take_them():
    assert set(kfp_outputs.KFP_OUTPUTS) == set(JOBS)
    assert set(kfp_outputs.CODE_VERSIONS) == {name for name, job in JOBS.items() if job_fields(job).outputs}
    assert set(kfp_outputs.CODE_VERSIONS.values()) <= set(kfp_outputs.KFP_OUTPUTS["run_checker"].results)
    kinds = {name: view.kfp for name, view in kfp_outputs.KFP_OUTPUTS["evaluator"].views.items()}
    assert kinds["curves"] == kfp_outputs.CURVES and kinds["report"] == kfp_outputs.HTML
    codecs = kfp_outputs.KFP_OUTPUTS["run_checker"].results
    for result, (component, field) in {
        "data_spans": ("example_gen", "spans"),
        "span_folder": ("data_validator", "span_folder"),
        "earlier_spans": ("data_validator", "earlier_spans"),
        "resolved_thresholds": ("evaluator", "thresholds"),
        "resolved_data_path": ("example_gen", "data_path"),
        "baseline_version": ("pusher", "baseline_version"),
    }.items():
        assert codecs[result] == job_fields(JOBS[component]).parameters[field].codec
    stop_reasons = job_fields(JOBS["trainer"]).parameters["stop_reasons"].codec
    assert kfp_outputs.KFP_OUTPUTS["data_validator"].results["stop_reasons"] == stop_reasons
    # What `run` returned is encoded by name.
    assert kfp_outputs.encode_results("pusher", {"pushed": True, "version": 3}) == {"pushed": True}
    report = {
        **dict.fromkeys(kfp_outputs.KFP_OUTPUTS["run_checker"].results, "x"),
        "data_spans": Spans(train=("1",)),
    }
    report |= {"earlier_spans": {"6": "d"}, "resolved_thresholds": {"b": {}, "a": {}}}
    texts = kfp_outputs.encode_results("run_checker", report)
    assert texts["data_spans"] == '{"train": ["1"], "evaluate": []}'
    assert texts["resolved_thresholds"] == '{"a": {}, "b": {}}' and texts["run_key"] == "x"
    with pytest.raises(KeyError, match="blessed"):
        kfp_outputs.encode_results("evaluator", {})


def _spec(component):
    return yaml.safe_load((FOLDER / f"{component}.yaml").read_text(encoding="utf-8"))


def test_a_file_out_of_date_is_told_and_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("component_specs.kfp_yaml.FOLDER", tmp_path)
    monkeypatch.setattr("component_specs.kfp_yaml.JOBS", {"pusher": JOBS["pusher"]})
    (tmp_path / "gone.yaml").write_text("of a component that is no more")
    assert main(["--check"]) == 1
    assert "gone.yaml, pusher.yaml; run `make specs`" in capsys.readouterr().err
    assert main([]) == 0
    assert [p.name for p in tmp_path.iterdir()] == ["pusher.yaml"]
    assert (tmp_path / "pusher.yaml").read_text() == render("pusher") and main(["--check"]) == 0


@cases(*JOBS)
def test_a_component_fits_itself_loads_and_has_what_its_job_and_its_outputs_say(*, component):
    from kfp import components

    assert kfp_outputs.find_mismatch(json.loads(kfp_outputs.format_interface(component)), component) == ""
    assert "{{" not in kfp_outputs.format_interface(component)
    # As somebody else would load it.
    loaded = components.load_component_from_file(str(FOLDER / f"{component}.yaml"))
    assert loaded.name == component.replace("_", "-")
    assert find_faults(_spec(component)) == []
    (body,) = _spec(component)["components"].values()
    fields, given = job_fields(JOBS[component]), kfp_outputs.KFP_OUTPUTS[component]
    taken, made = body["inputDefinitions"], body["outputDefinitions"]
    optional = {n: a.get("isOptional", False) for n, a in taken.get("artifacts", {}).items()}
    assert optional == {n: i.optional for n, i in fields.inputs.items()}
    parameters = taken["parameters"]
    defaults = {n: p.get("defaultValue", dataclasses.MISSING) for n, p in parameters.items()}
    known = fields.parameters.items()
    assert defaults == {n: p.default if p.required else p.codec.encode(p.default) for n, p in known}
    assert set(made.get("artifacts", {})) == {*fields.outputs, *given.views}
    assert set(made.get("parameters", {})) == set(given.results)
    assert all(p.get("description") for p in parameters.values())
    # No view or result has the name of a field.
    names = [*fields.inputs, *fields.outputs, *fields.parameters, *given.views, *given.results]
    assert len(names) == len(set(names))


def test_the_files_are_up_to_date_and_hold_the_interface():
    arguments = _spec("evaluator")["deploymentSpec"]["executors"]["exec-evaluator"]["container"]["args"]
    assert arguments[:3] == ["--executor_input", "{{$}}", "--interface"]
    assert json.loads(arguments[3]) == kfp_outputs.interface("evaluator")
    assert main(["--check"]) == 0, "run `make specs`"


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


def test_one_from_outside_is_rendered_with_its_module_under_a_name_that_is_given_once(request):
    register_component("grader", GraderJob, module="somebody.grader")
    request.addfinalizer(lambda: forget_component("grader"))
    component = yaml.safe_load(render("grader"))
    executor = component["deploymentSpec"]["executors"]["exec-grader"]["container"]
    assert executor["command"] == ["python", "-m", "somebody.grader"]
    inputs = component["root"]["inputDefinitions"]
    assert set(inputs["artifacts"]) == {"model"} and inputs["parameters"]["best"]["defaultValue"] == 10
    for name in ("grader", "trainer"):
        with pytest.raises(ValueError, match=f"'{name}', which is taken"):
            register_component(name, GraderJob, module="somebody.grader")
    # A contract that no backend carries is refused.
    with pytest.raises(TypeError, match=r"StrangeJob\.when"):
        register_component("strange", StrangeJob, module="somebody.strange")
    assert "strange" not in JOBS and "strange" not in kfp_outputs.KFP_OUTPUTS
    assert entry_module("trainer") == "components.trainer"


@pytest.mark.tfx
def test_every_job_has_a_tfx_spec_with_its_keys_and_every_artifact_type_a_class():
    from tfx.types import standard_artifacts

    from component_specs import tfx_spec

    for job in JOBS.values():
        spec = getattr(tfx_spec, job.__name__.removesuffix("Job") + "Spec")
        fields = job_fields(job)
        assert set(spec.OUTPUTS) == set(fields.outputs)
        found = {n: (p.type, not p.optional) for n, p in spec.PARAMETERS.items()}
        assert found == {n: (p.codec.carried_as, p.required) for n, p in fields.parameters.items()}
        found = {n: p.optional for n, p in spec.INPUTS.items()}
        assert found == {n: i.optional for n, i in fields.inputs.items()}
    assert tfx_spec.artifact_class(EXAMPLES) is standard_artifacts.Examples
    for artifact_type in filter(lambda value: isinstance(value, ArtifactType), vars(annotations).values()):
        name = artifact_type.name
        found = tfx_spec.artifact_class(artifact_type)
        assert name == found.TYPE_NAME
        # TFX imports the class of a stored artifact by its module and name.
        assert artifact_type.standard or getattr(tfx_spec, name) is found
