"""The estimate of a Workflow's size, against sizes that were measured on a server."""

import copy
from pathlib import Path

import pytest
import yaml

from pipeline.kubeflow.workflow_size import LIMIT_BYTES, SAFE_BYTES, estimate_workflow
from tests.support.compiled import documents


@pytest.fixture(scope="module")
def measured():
    path = Path(__file__).parents[1] / "data" / "measured_pipeline.yaml"
    spec, platform = yaml.load_all(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
    return spec, [platform]


def _golden(added=0):
    """Return the golden package with a longer pipeline.config."""
    spec, platform = documents()
    task = spec["root"]["dag"]["tasks"]["config-gen"]["inputs"]["parameters"]
    task["text"]["runtimeValue"]["constant"] += "x" * added
    return estimate_workflow(spec, [platform])


def _with_configs(measured, kilobytes):
    """Estimate the package with pipeline.configs of a size, repeated text of the ones that it has."""
    spec, platforms = measured
    changed = copy.deepcopy(spec)
    for task in ("trainer", "quantization-rewriter"):
        value = changed["root"]["dag"]["tasks"][task]["inputs"]["parameters"]["pipeline_config"]
        text, size = value["runtimeValue"]["constant"], kilobytes * 1024
        value["runtimeValue"]["constant"] = (text * (size // len(text) + 1))[:size]
    return estimate_workflow(changed, platforms).total


def test_the_package_that_was_measured(measured):
    """A run of it on KFP 2.17.0 had 0.65 MB of node status; Argo counts the workflow's specification too."""
    size = estimate_workflow(*measured)
    assert 0.65e6 < size.total < 0.80e6
    assert set(size.tasks) == set(measured[0]["root"]["dag"]["tasks"])
    assert size.total == size.frame + sum(size.tasks.values())


def test_a_kilobyte_of_pipeline_config_costs_thirty_and_fifteen_lose_the_view_of_a_run(measured):
    sizes = [_with_configs(measured, n) for n in (5, 25)]
    assert 26 < (sizes[1] - sizes[0]) / (20 * 1024) < 33
    fits = [n for n in range(10, 20) if _with_configs(measured, n) < LIMIT_BYTES]
    assert 12 <= max(fits) <= 17 and fits == list(range(10, max(fits) + 1))


def test_the_example_is_as_large_as_on_a_server_and_a_text_costs_what_its_task_costs_more():
    before, after = _golden(), _golden(added=1024)
    # On KFP 2.17.0 with Argo 4.0.5 its Workflow had 817.7 kB with 70 nodes.
    assert before.total == pytest.approx(817_700, rel=0.05)
    assert {n for n in before.tasks if before.tasks[n] != after.tasks[n]} == {"config-gen"}
    assert 11 * 1024 <= after.total - before.total <= 13 * 1024
    # Packed, as it travels: the example leaves room for text that is four times as much and more.
    assert _golden(added=4096).total < SAFE_BYTES


def test_what_nobody_knows_yet_is_counted(measured):
    spec, platforms = measured
    without = copy.deepcopy(spec)
    del without["root"]["dag"]["tasks"]["evaluator"]["inputs"]["artifacts"]["baseline"]
    assert estimate_workflow(without, platforms).total < estimate_workflow(spec, platforms).total - 3000
    nothing = estimate_workflow({"root": {}})
    assert nothing.tasks == {}
    # Templates, six nodes, and the 26 characters of "{\"dag\":{\"tasks\":{}}}" as three arguments.
    assert nothing.frame == 15_000 + 6 * 800 + 3 * 26
