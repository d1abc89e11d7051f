import json
import os
from pathlib import Path

import pytest

from component_specs.interface import format_interface, interface
from components.runtime.kfp.call import bind_call, is_kfp_call, prepare
from detection_core.errors import ConfigError, ContractError
from tests.support.cases import refused


def _artifact(uri, **metadata):
    return {"artifacts": [{"name": "1", "uri": uri, "type": {"instanceSchema": ""}, "metadata": metadata}]}


@pytest.fixture
def executor_input(tmp_path):
    for name in ("examples", "model", "baseline"):
        (tmp_path / "minio" / "b" / name).mkdir(parents=True)
    names = ("evaluation", "blessing", "metrics", "report", "executor-logs")
    return {
        "inputs": {
            "parameterValues": {"pictures": 3.0, "split": "test"},
            "artifacts": {n: _artifact(f"minio://b/{n}") for n in ("examples", "model", "baseline")},
        },
        "outputs": {
            "artifacts": {name: _artifact(f"minio://b/out/{name}") for name in names},
            "parameters": {"blessed": {"outputFile": str(tmp_path / "p" / "blessed")}},
            "outputFile": str(tmp_path / "out.json"),
        },
    }


def _bind(executor_input, tmp_path, component="evaluator", described=""):
    described = described or format_interface(component)
    call = ["--executor_input", json.dumps(executor_input), "--interface", described]
    return bind_call(component, [*call, "--root", str(tmp_path)])


def test_a_job_is_filled(executor_input, tmp_path):
    call = _bind(executor_input, tmp_path)
    assert call.job.pictures == 3 and type(call.job.pictures) is int
    assert call.job.split == "test" and call.job.thresholds == {}
    assert call.job.baseline == str(tmp_path / "minio" / "b" / "baseline")
    assert call.job.evaluation == call.paths["evaluation"] == str(tmp_path / "minio/b/out/evaluation")
    # `curves` is not in the caller's YAML, `executor-logs` is KFP's own.
    assert set(call.artifacts) == {"evaluation", "blessing", "metrics", "report"}
    assert call.result_files == {"blessed": str(tmp_path / "p" / "blessed")}
    assert is_kfp_call(["--executor_input", "{}"]) and is_kfp_call(["--executor_input={}"])
    assert not is_kfp_call(["--examples", "x"])


def test_optional_inputs_may_be_missing_or_absent(executor_input, tmp_path):
    artifacts = executor_input["inputs"]["artifacts"]
    for absent in (_artifact("minio://b/baseline", absent=1.0), {"artifacts": []}):
        artifacts["baseline"] = absent
        assert _bind(executor_input, tmp_path).job.baseline == ""
    del artifacts["baseline"]
    assert _bind(executor_input, tmp_path).job.baseline == ""


def test_what_is_missing_or_wrong_is_named(executor_input, tmp_path):
    inputs, bind = executor_input["inputs"], (_bind, executor_input, tmp_path)
    inputs["artifacts"]["model"] = _artifact("minio://b/model", artifact_type="Examples")
    refused(ContractError, r"input model to be an artifact of the type Model, found .* Examples", *bind)
    del inputs["artifacts"]["model"]
    refused(ContractError, "the input model", *bind)
    inputs["parameterValues"]["pictures"] = 2.5
    refused(ConfigError, r"pictures: expected a value of the type int, found 2\.5", *bind)
    inputs["parameterValues"]["pictures"] = None
    del executor_input["outputs"]["artifacts"]["blessing"]
    refused(ContractError, "expected blessing in KFP's executor input", *bind)
    few, missing = {"baseline": _artifact("minio://b/x")}, "expected push_destination in KFP's executor input"
    refused(ContractError, missing, _bind, {"outputs": {"artifacts": few}}, tmp_path, "baseline_resolver")


def test_a_yaml_of_another_version_is_refused(executor_input, tmp_path):
    theirs = interface("evaluator")
    theirs["parameters"]["speed"] = "int?"
    known = "parameter speed is known there only; use the YAML and the image"
    nonsense = "--interface: expected a JSON object"
    for described, told in ((json.dumps(theirs), known), ("nonsense", nonsense)):
        refused(ContractError, told, _bind, executor_input, tmp_path, "evaluator", described)


def test_outputs_are_cleared_and_home_is_writable(executor_input, tmp_path, monkeypatch):
    call = _bind(executor_input, tmp_path)
    evaluation = Path(call.paths["evaluation"])
    evaluation.mkdir(parents=True)
    (evaluation / "stale").touch()
    Path(call.paths["report"]).write_text("stale")
    monkeypatch.setenv("HOME", str(tmp_path / "nowhere"))
    prepare(call)
    assert os.listdir(evaluation) == [] and os.path.isdir(call.paths["blessing"])
    assert not os.path.exists(call.paths["report"])
    assert os.access(os.environ["HOME"], os.W_OK)
