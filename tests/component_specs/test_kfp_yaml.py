import dataclasses
import json

import yaml

from component_specs import JOBS
from component_specs.annotations import job_fields
from component_specs.interface import interface
from component_specs.kfp_outputs import KFP_OUTPUTS
from component_specs.kfp_yaml import FOLDER, main, render
from pipeline.kubeflow.kfp_rules import find_faults
from tests.support.cases import cases


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
def test_a_component_loads_and_has_what_its_job_and_its_outputs_say(*, component):
    from kfp import components

    # As somebody else would load it.
    loaded = components.load_component_from_file(str(FOLDER / f"{component}.yaml"))
    assert loaded.name == component.replace("_", "-")
    assert find_faults(_spec(component)) == []
    (body,) = _spec(component)["components"].values()
    fields, given = job_fields(JOBS[component]), KFP_OUTPUTS[component]
    taken, made = body["inputDefinitions"], body["outputDefinitions"]
    optional = {n: a.get("isOptional", False) for n, a in taken.get("artifacts", {}).items()}
    assert optional == {n: i.optional for n, i in fields.inputs.items()}
    parameters = taken["parameters"]
    defaults = {n: p.get("defaultValue", dataclasses.MISSING) for n, p in parameters.items()}
    known = fields.parameters.items()
    assert defaults == {n: p.default if p.required else p.encode(p.default) for n, p in known}
    assert set(made.get("artifacts", {})) == {*fields.outputs, *given.views}
    assert set(made.get("parameters", {})) == set(given.results)
    assert all(p.get("description") for p in parameters.values())
    # No view or result has the name of a field.
    names = [*fields.inputs, *fields.outputs, *fields.parameters, *given.views, *given.results]
    assert len(names) == len(set(names))


def test_the_files_are_up_to_date_and_hold_the_interface():
    arguments = _spec("evaluator")["deploymentSpec"]["executors"]["exec-evaluator"]["container"]["args"]
    assert arguments[:3] == ["--executor_input", "{{$}}", "--interface"]
    assert json.loads(arguments[3]) == interface("evaluator")
    assert main(["--check"]) == 0, "run `make specs`"
