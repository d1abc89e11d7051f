"""The example of a search by Katib, against the fields that Katib has and what Trainer takes."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from component_specs import TrainerJob
from components.runtime.bind import bind_arguments
from detection_core.artifacts.evaluation import MAP
from detection_core.config.load import load_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.loggers.open_loggers import metric_name
from detection_core.training.actions import SCORE

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "examples" / "kubeflow" / "katib-experiment.yaml").read_text()
EXPERIMENT = yaml.safe_load(TEXT)
SPEC = EXPERIMENT["spec"]

SPACE = {"max": str, "min": str, "list": [str], "step": str}
# The JSON names of the Go types in kubeflow/katib, experiments/v1beta1/experiment_types.go and
# common/v1beta1/common_types.go below pkg/apis/controller. The definition keeps unknown fields, so that a
# misspelt one would be taken and change nothing.
_NAMED = [{"name": str, "value": str}]
FIELDS = {
    "parameters": [{"name": str, "parameterType": str, "feasibleSpace": SPACE}],
    "objective": {"type": str, "goal": float, "objectiveMetricName": str, "additionalMetricNames": [str]},
    "algorithm": {"algorithmName": str, "algorithmSettings": _NAMED},
    "trialTemplate": {
        "retain": bool,
        "trialSpec": Any,
        "primaryPodLabels": dict,
        "primaryContainerName": str,
    },
    "metricsCollectorSpec": {"source": Any, "collector": {"kind": str}},
    "resumePolicy": str,
}
FIELDS["objective"]["metricStrategies"] = _NAMED
FIELDS["trialTemplate"]["trialParameters"] = [{"name": str, "description": str, "reference": str}]
FIELDS["trialTemplate"] |= {"successCondition": str, "failureCondition": str}
FIELDS |= dict.fromkeys(("parallelTrialCount", "maxTrialCount", "maxFailedTrialCount"), int)
VALUES = {
    "parameterType": ("double", "int", "discrete", "categorical"),
    "value": ("min", "max", "latest"),
    "type": ("maximize", "minimize"),
    "kind": ("StdOut", "File", "TensorFlowEvent", "PrometheusMetric", "Custom", "None"),
}


def check(value, known, path):
    if isinstance(known, dict):
        assert isinstance(value, dict), path
        for key, inner in value.items():
            assert key in known, f"{path}.{key} is no field of Katib's"
            check(inner, known[key], f"{path}.{key}")
            assert inner in VALUES.get(key, (inner,)), f"{path}.{key}: {inner}"
    elif isinstance(known, list):
        for i, each in enumerate(value):
            check(each, known[0], f"{path}[{i}]")
    elif known is not Any:
        assert isinstance(value, known), f"{path}: {value!r}"


CONTAINER = SPEC["trialTemplate"]["trialSpec"]["spec"]["template"]["spec"]["containers"][0]


def as_katib_runs_it(**values):
    """Words of the command as the shell has them: the template filled in, the words joined by blanks.

    As `wrapWorkerContainer` of kubeflow/katib, pkg/webhook/v1beta1/pod/utils.go does it: `sh -c` in front is
    left where it is.
    """
    shell, flag, *words = CONTAINER["command"]
    assert (shell, flag) == ("sh", "-c")
    return shlex.split(re.sub(r"\$\{trialParameters\.(\w+)\}", lambda m: values[m[1]], " ".join(words)))


def test_every_field_is_one_of_katibs_and_what_is_searched_arrives_in_the_command():
    assert (EXPERIMENT["apiVersion"], EXPERIMENT["kind"]) == ("kubeflow.org/v1beta1", "Experiment")
    check(SPEC, FIELDS, "spec")
    with pytest.raises(AssertionError, match="paralelTrialCount is no field"):
        check({**SPEC, "paralelTrialCount": 2}, FIELDS, "spec")
    given = {parameter["name"] for parameter in SPEC["parameters"]}
    handed = {p["name"]: p["reference"] for p in SPEC["trialTemplate"]["trialParameters"]}
    assert set(handed.values()) == given
    assert set(re.findall(r"\$\{trialParameters\.(\w+)\}", TEXT)) == set(handed)
    assert CONTAINER["name"] == SPEC["trialTemplate"]["primaryContainerName"]
    objective = SPEC["objective"]
    assert objective["objectiveMetricName"] == metric_name(SCORE)
    assert objective["additionalMetricNames"] == [metric_name(MAP)]
    assert [s["name"] for s in objective["metricStrategies"]] == [metric_name(SCORE), metric_name(MAP)]


def test_the_command_is_one_that_trainer_takes(tmp_path):
    words = as_katib_runs_it(learningRate="0.0173", clipping="5")
    assert words[:3] == ["python", "-m", "components.trainer"]
    arguments = [word.replace("/work/search", str(tmp_path)) for word in words[3:]]
    for name in ("examples", "config"):
        (tmp_path / name).mkdir()
    job = bind_arguments(TrainerJob, arguments)
    assert job.learning_rate == 0.0173
    config = load_pipeline_config(str(ROOT / "examples" / "digits" / "pipeline.config"))
    found = apply_overrides(config, job.overrides).train_config
    assert (found.gradient_clipping_by_norm, found.monitoring.metric_lines) == (5.0, True)
