"""One bad package for every rule, each a single change to a good one."""

from __future__ import annotations

import copy
import re

import pytest
import yaml

from detection_core.errors import ContractError
from pipeline.kubeflow.kfp_rules import RULES, check_package, find_faults
from tests.pipeline.golden import GOLDEN

_GOOD = next(yaml.safe_load_all(GOLDEN.read_text(encoding="utf-8")))
_EVALUATOR = ("components", "comp-evaluator")
_CONTAINER = ("deploymentSpec", "executors", "exec-evaluator", "container")
_TASK = ("root", "dag", "tasks", "evaluator", "inputs", "parameters")

# (where, what is put there; None removes it, part of the message)
_BAD = [
    (("schemaVersion",), "2.0.0", "schemaVersion is '2.0.0'"),
    (("pipelineInfo", "name"), "My_Pipeline", "the pipeline's name 'My_Pipeline'"),
    (("pipelineInfo", "name"), "a" * 111, "hyphens, 110 at most"),
    (("components", "evaluator"), {}, "the component 'evaluator' does not begin with comp-"),
    ((*_EVALUATOR, "inputDefinitions", "parameters", "split", "parameterType"), None, "has no parameterType"),
    (
        (*_EVALUATOR, "outputDefinitions", "artifacts", "report", "artifactType"),
        {"schemaTitle": "tfx.Examples"},
        "has the type 'tfx.Examples'",
    ),
    (
        (*_EVALUATOR, "inputDefinitions", "artifacts", "model", "artifactType"),
        {"instanceSchema": "title: Model"},
        "has the type ''",
    ),
    (("deploymentSpec", "executors", "exec-evaluator"), {"resolver": {}}, "is of the kind resolver"),
    ((*_CONTAINER, "command"), None, "has no command"),
    ((*_CONTAINER, "image"), None, "has no image"),
    ((*_CONTAINER, "lifecycle"), {"preCacheCheck": {}}, "has a lifecycle hook"),
    ((*_CONTAINER, "args"), ['{"IfPresent": {}}'], "begins with IfPresent"),
    ((*_CONTAINER, "args"), ["a {{workflow.name}}"], "which begins a placeholder"),
    ((*_CONTAINER, "args"), ["x" * 200_000], "is longer than 131072 bytes"),
    ((*_TASK, "split"), {"runtimeValue": {"constant": "x" * 70_000}}, "they travel as one argument"),
    ((*_TASK, "split"), {"runtimeValue": {"constant": "{{x}}"}}, "a value given to evaluator in root holds"),
]


def _changed(where, value):
    spec = copy.deepcopy(_GOOD)
    node = spec
    for part in where[:-1]:
        node = node[part]
    if value is None:
        del node[where[-1]]
    else:
        node[where[-1]] = value
    return spec


def test_a_good_package_passes():
    check_package(GOLDEN.read_text(encoding="utf-8"))
    assert not list(find_faults(_GOOD))


@pytest.mark.parametrize(("where", "value", "message"), _BAD, ids=[m for _, _, m in _BAD])
def test_a_bad_package_is_told(where, value, message):
    (fault,) = find_faults(_changed(where, value))
    assert message in fault


def test_a_package_whose_runs_could_not_be_shown_is_refused_with_the_arithmetic():
    """30 KB in two steps pass as arguments of a program; Argo would compress the record of the run."""
    spec = copy.deepcopy(_GOOD)
    for task in ("trainer", "quantization-rewriter"):
        parameters = spec["root"]["dag"]["tasks"][task]["inputs"]["parameters"]
        parameters["overrides"] = {"runtimeValue": {"constant": "x" * 30_000}}
    with pytest.raises(ContractError) as refused:
        check_package(yaml.safe_dump(spec))
    message = str(refused.value)
    assert re.search(r"Workflow of a run would reach 1\d\d\d kB, and beyond 944 kB", message)
    assert re.search(r"11 tasks the rest \(trainer \d{3}, quantization-rewriter \d{3}, pusher \d+", message)
    assert find_faults(spec) == []


def test_every_rule_has_a_bad_package():
    broken = {rule for where, value, _ in _BAD for rule in RULES if list(rule(_changed(where, value)))}
    assert broken == set(RULES)


def test_a_field_that_the_server_does_not_know_is_refused():
    bad = yaml.safe_dump(_changed(("root", "speed"), 3))
    with pytest.raises(ContractError, match=r'PipelineSpec: .*"speed"'):
        check_package(bad)
    platforms = yaml.safe_dump({"platforms": {"kubernetes": {}}, "speed": 3})
    with pytest.raises(ContractError, match=r'PlatformSpec: .*"speed"'):
        check_package(yaml.safe_dump(_GOOD) + "---\n" + platforms)
    executors = {"exec-trainer": {"activeDeadlineSeconds": "60", "deadline": 3}}
    kubernetes = {"platforms": {"kubernetes": {"deploymentSpec": {"executors": executors}}}}
    with pytest.raises(ContractError, match=r'exec-trainer for Kubernetes: .*"deadline"'):
        check_package(yaml.safe_dump_all([_GOOD, kubernetes]))
    with pytest.raises(ContractError, match=r"schemaVersion is '2\.0\.0'"):
        check_package(yaml.safe_dump(_changed(("schemaVersion",), "2.0.0")))
