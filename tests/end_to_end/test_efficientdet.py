"""The same workflow with an EfficientDet of google/automl's: real Beam, ML Metadata and interpreters."""

import os

import pytest

from tests.end_to_end.conftest import ROOT, SMALL, Workflow, states

SETTINGS = ROOT / "examples" / "digits" / "efficientdet_lite0.yaml"
SHORT = (
    "model.efficientdet.image_resizer={fixed_shape_resizer {height: 64 width: 64}}",
    *(override for override in SMALL if not override.startswith("model.")),
    "quantize.overrides.train_config.num_steps=2",
    "train.overrides.train_config.num_steps=4",
)


@pytest.mark.slow
@pytest.mark.zoo
@pytest.mark.tfx
@pytest.mark.timeout(1500)
def test_the_workflow_trains_quantizes_gates_and_publishes_it(tmp_path, scenes):
    workflow = Workflow(tmp_path, scenes)
    sets = [word for word in workflow.sets(*SHORT) if not word.startswith("--set=model.ssd")]
    summary = workflow.call_process("run", SETTINGS, *sets)
    assert summary["status"] == "succeeded" and set(states(summary).values()) == {"executed"}
    version, published = str(summary["pushed"]["version"]), workflow.workspace / "pushed"
    assert (published / "saved_model" / version / "saved_model.pb").is_file()
    files = set(os.listdir(published / "tflite" / version))
    assert files >= {"model_float32.tflite", "model_int8.tflite", "labels.txt"}
    with open(summary["places"]["report"], encoding="utf-8") as report:
        assert "efficientdet-lite0" in report.read()
