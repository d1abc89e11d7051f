import json
import types

import pytest

from component_specs import JOBS
from components.evaluator import run as evaluator
from components.example_gen import run as example_gen
from detection_core.artifacts.blessing import write_blessing

pytestmark = pytest.mark.tfx


@pytest.fixture(scope="module")
def tfx():
    from components.runtime import tfx

    return tfx


class Artifact(types.SimpleNamespace):
    def set_int_custom_property(self, name, value):
        self.properties[name] = value

    set_string_custom_property = set_int_custom_property


def artifact(folder, type_name, number=0):
    return [Artifact(uri=str(folder), type_name=type_name, id=number, properties={}, split_names="")]


def test_every_component_has_a_class_and_an_executor_that_tfx_finds_by_name(tfx):
    assert set(tfx.COMPONENTS) == set(JOBS)
    for name, component in tfx.COMPONENTS.items():
        executor = component.EXECUTOR_SPEC.executor_class
        assert executor.COMPONENT == component.COMPONENT == name
        assert component.__name__ == JOBS[name].__name__.removesuffix("Job")
        for cls in (component, executor, component.SPEC_CLASS):
            assert getattr(__import__(cls.__module__, fromlist=[cls.__name__]), cls.__name__) is cls


def test_values_are_encoded_on_their_way_into_a_pipeline(tfx):
    component = tfx.COMPONENTS["example_gen"]("ingest", data_path="/d", splits={"b": 0.5, "a": 0.5})
    assert component.id == "ingest"
    assert component.exec_properties["splits"] == '{"a": 0.5, "b": 0.5}'
    assert set(component.outputs) == {"examples"}


def test_an_executor_runs_the_step_with_decoded_values_and_describes_its_outputs(tfx, tmp_path, monkeypatch):
    seen = []

    def run(job):
        seen.append(job)
        write_blessing(job.blessing, True, [])

    monkeypatch.setattr(evaluator, "run", run)

    for name in ("examples", "model", "evaluation", "blessing"):
        (tmp_path / name).mkdir()
    inputs = {"examples": artifact(tmp_path / "examples", "Examples")}
    inputs["model"] = artifact(tmp_path / "model", "Model", 7)
    outputs = {"evaluation": artifact(tmp_path / "evaluation", "ModelEvaluation")}
    outputs["blessing"] = artifact(tmp_path / "blessing", "ModelBlessing")
    tfx.EvaluatorExecutor().Do(inputs, outputs, {"thresholds": '{"mAP": {"lower_bound": 0.5}}'})
    assert seen[0].thresholds == {"mAP": {"lower_bound": 0.5}}
    # LatestBlessedModelStrategy of TFX 1.21 looks for these two custom properties.
    properties = outputs["blessing"][0].properties
    assert properties["blessed"] == 1 and properties["current_model_id"] == 7
    assert {output[0].properties["peak_memory_bytes"] > 100_000_000 for output in outputs.values()} == {True}


def test_the_splits_of_examples_are_listed_as_stock_components_expect_them(tfx, tmp_path, monkeypatch):
    def run(job):
        for split in ("train", "eval"):
            (tmp_path / "out" / f"Split-{split}").mkdir(parents=True)

    monkeypatch.setattr(example_gen, "run", run)
    out = artifact(tmp_path / "out", "Examples")
    tfx.ExampleGenExecutor().Do({}, {"examples": out}, {"data_path": "/d"})
    assert json.loads(out[0].split_names) == ["eval", "train"]
