"""One bad package for every rule, each a single change to a good one."""

import re

import pytest
import yaml

from detection_core.errors import ContractError
from pipeline.kubeflow.kfp_rules import RULES, check_package, find_faults
from tests.pipeline.golden import GOLDEN
from tests.support.compiled import documents

_EVALUATOR = "components comp-evaluator"
_REPORT, _MODEL = (
    f"{_EVALUATOR} outputDefinitions artifacts report",
    f"{_EVALUATOR} inputDefinitions artifacts model",
)
_EXECUTOR = "deploymentSpec executors exec-evaluator"
_SPLIT = "root dag tasks evaluator inputs parameters split"

# (where, what is put there; None removes it, part of the message)
_BAD = [
    ("schemaVersion", "2.0.0", "schemaVersion is '2.0.0'"),
    ("pipelineInfo name", "My_Pipeline", "the pipeline's name 'My_Pipeline'"),
    ("pipelineInfo name", "a" * 111, "hyphens, 110 at most"),
    ("components evaluator", {}, "the component 'evaluator' does not begin with comp-"),
    (f"{_EVALUATOR} inputDefinitions parameters split parameterType", None, "has no parameterType"),
    (f"{_REPORT} artifactType", {"schemaTitle": "tfx.Examples"}, "has the type 'tfx.Examples'"),
    (f"{_MODEL} artifactType", {"instanceSchema": "title: Model"}, "has the type ''"),
    (_EXECUTOR, {"resolver": {}}, "is of the kind resolver"),
    (f"{_EXECUTOR} container command", None, "has no command"),
    (f"{_EXECUTOR} container image", None, "has no image"),
    (f"{_EXECUTOR} container lifecycle", {"preCacheCheck": {}}, "has a lifecycle hook"),
    (f"{_EXECUTOR} container args", ['{"IfPresent": {}}'], "begins with IfPresent"),
    (f"{_EXECUTOR} container args", ["a {{workflow.name}}"], "which begins a placeholder"),
    (f"{_EXECUTOR} container args", ["x" * 200_000], "is longer than 131072 bytes"),
    (_SPLIT, {"runtimeValue": {"constant": "x" * 70_000}}, "they travel as one argument"),
    (_SPLIT, {"runtimeValue": {"constant": "{{x}}"}}, "a value given to evaluator in root holds"),
]


def _changed(where, value):
    spec, _ = documents()
    *path, last = where.split()
    node = spec
    for part in path:
        node = node[part]
    if value is None:
        del node[last]
    else:
        node[last] = value
    return spec


def test_a_good_package_and_one_at_the_limits_pass():
    check_package(GOLDEN.read_text(encoding="utf-8"))
    assert not list(find_faults(documents()[0]))
    for where, value in (("pipelineInfo name", "a" * 110), (f"{_EXECUTOR} container args", ["x" * 131_000])):
        assert find_faults(_changed(where, value)) == []


def test_a_bad_package_is_told_by_its_rule(subtests):
    broken = set()
    for where, value, message in _BAD:
        with subtests.test(message):
            spec = _changed(where, value)
            (fault,) = find_faults(spec)
            assert message in fault
            broken |= {rule for rule in RULES if list(rule(spec))}
    assert broken == set(RULES), "every rule has a bad package"


def test_a_package_whose_runs_could_not_be_shown_is_refused_with_the_arithmetic():
    """30 KB in two steps pass as arguments of a program; Argo would compress the record of the run."""
    spec, _ = documents()
    for task in ("trainer", "quantization-rewriter"):
        parameters = spec["root"]["dag"]["tasks"][task]["inputs"]["parameters"]
        parameters["overrides"] = {"runtimeValue": {"constant": "x" * 30_000}}
    with pytest.raises(ContractError) as refused:
        check_package(yaml.safe_dump(spec))
    message = str(refused.value)
    assert re.search(r"Workflow of a run would reach 1\d\d\d kB, and beyond 944 kB", message)
    assert re.search(r"11 tasks the rest \(trainer \d{3}, quantization-rewriter \d{3}, pusher \d+", message)
    assert find_faults(spec) == []


def test_a_field_that_the_server_does_not_know_is_refused():
    good, _ = documents()
    executors = {"exec-trainer": {"activeDeadlineSeconds": "60", "deadline": 3}}
    kubernetes = {"platforms": {"kubernetes": {"deploymentSpec": {"executors": executors}}}}
    for message, *package in (
        (r'PipelineSpec: .*"speed"', _changed("root speed", 3)),
        (r'PlatformSpec: .*"speed"', good, {"platforms": {"kubernetes": {}}, "speed": 3}),
        (r'exec-trainer for Kubernetes: .*"deadline"', good, kubernetes),
        (r"schemaVersion is '2\.0\.0'", _changed("schemaVersion", "2.0.0")),
    ):
        with pytest.raises(ContractError, match=message):
            check_package(yaml.safe_dump_all(package))
