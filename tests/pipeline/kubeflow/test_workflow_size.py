from __future__ import annotations

import copy
from pathlib import Path

import pytest
import yaml

from pipeline.kubeflow.workflow_size import LIMIT_BYTES, SAFE_BYTES, estimate_workflow
from tests.pipeline.golden import GOLDEN

MEASURED = Path(__file__).parents[1] / "data" / "measured_pipeline.yaml"


def _package(path):
    spec, platform = yaml.safe_load_all(path.read_text(encoding="utf-8"))
    return spec, [platform]


@pytest.fixture(scope="module")
def measured():
    return _package(MEASURED)


def _with_configs(spec, size):
    """Return the package with pipeline.configs of a size, repeated text of the ones that it has."""
    changed = copy.deepcopy(spec)
    for task in ("trainer", "quantization-rewriter"):
        parameters = changed["root"]["dag"]["tasks"][task]["inputs"]["parameters"]
        value = parameters["pipeline_config"]["runtimeValue"]
        text = value["constant"]
        value["constant"] = (text * (size // len(text) + 1))[:size]
    return changed


def test_the_package_that_was_measured(measured):
    """A run of it on KFP 2.17.0 had 0.65 MB of node status; Argo counts the workflow's specification too."""
    spec, platforms = measured
    size = estimate_workflow(spec, platforms)
    assert 0.65e6 < size.total < 0.80e6
    assert set(size.tasks) == set(spec["root"]["dag"]["tasks"])
    assert size.total == size.frame + sum(size.tasks.values())


def test_the_digits_example_is_as_large_as_it_was_on_a_real_server():
    """On KFP 2.17.0 with Argo 4.0.5 its Workflow had 817.7 kB with 70 nodes."""
    spec, platforms = _package(GOLDEN)
    assert estimate_workflow(spec, platforms).total == pytest.approx(817_700, rel=0.05)


def test_a_kilobyte_of_pipeline_config_in_it_cost_some_thirty(measured):
    spec, platforms = measured
    sizes = [estimate_workflow(_with_configs(spec, n * 1024), platforms).total for n in (5, 25)]
    assert 26 < (sizes[1] - sizes[0]) / (20 * 1024) < 33


def test_the_view_of_a_run_was_lost_near_fifteen_kilobytes_of_it(measured):
    spec, platforms = measured
    fits = [
        n
        for n in range(4, 46)
        if estimate_workflow(_with_configs(spec, n * 1024), platforms).total < LIMIT_BYTES
    ]
    assert 12 <= max(fits) <= 17


def test_a_text_costs_what_the_task_that_has_it_costs_more():
    spec, platforms = _package(GOLDEN)
    before = estimate_workflow(spec, platforms)
    changed = copy.deepcopy(spec)
    task = changed["root"]["dag"]["tasks"]["config-gen"]["inputs"]["parameters"]
    task["text"]["runtimeValue"]["constant"] += "x" * 1024
    after = estimate_workflow(changed, platforms)
    assert {n for n in before.tasks if before.tasks[n] != after.tasks[n]} == {"config-gen"}
    assert 11 * 1024 <= after.total - before.total <= 13 * 1024


def test_the_example_leaves_room_for_a_config_of_four_kilobytes_more():
    """Packed, as it travels: of text that is four times as much and more."""
    spec, platforms = _package(GOLDEN)
    changed = copy.deepcopy(spec)
    task = changed["root"]["dag"]["tasks"]["config-gen"]["inputs"]["parameters"]
    task["text"]["runtimeValue"]["constant"] += "x" * 4096
    assert estimate_workflow(changed, platforms).total < SAFE_BYTES


def test_what_nobody_knows_yet_is_counted(measured):
    spec, platforms = measured
    without = copy.deepcopy(spec)
    del without["root"]["dag"]["tasks"]["evaluator"]["inputs"]["artifacts"]["baseline"]
    assert estimate_workflow(without, platforms).total < estimate_workflow(spec, platforms).total - 3000
    assert estimate_workflow({"root": {}}).tasks == {}
