from __future__ import annotations

import pytest

from detection_core.config.load import load_checked_config
from detection_core.zoo.cache import CACHE_VARIABLE, MIRROR_VARIABLE
from pipeline.config_checks import check_steps
from pipeline.dag import build_dag
from pipeline.init.documents import GRID, SETTINGS, write_documents
from pipeline.init.ladder import list_networks
from pipeline.init.plan import Request, make_plan
from pipeline.init.settings_choice import PIPELINE_CONFIG
from pipeline.settings.settings_file import load_settings
from pipeline.step_configs import training_config
from tests.detection_core.datasets.dataset_files import Coco
from tests.pipeline.init.looked_at import LAPTOP


@pytest.fixture(autouse=True)
def no_network(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv(MIRROR_VARIABLE, str(tmp_path / "mirror"))


@pytest.mark.parametrize("name", [network.name for network in list_networks()])
def test_the_files_of_every_network_are_a_workflow_that_can_be_run(tmp_path, name):
    data = Coco(tmp_path / "data", images=30)
    data.add_image(31, boxes=[(1, 1, 9, 9)] * 40)
    request = Request(data=data.write(), folder=str(tmp_path / "mine"), model=name, weights=False)
    contents = write_documents(make_plan(request, LAPTOP))
    assert set(contents) == {SETTINGS, PIPELINE_CONFIG, GRID}
    (tmp_path / "mine").mkdir()
    for file, content in contents.items():
        (tmp_path / "mine" / file).write_bytes(content)
    settings = load_settings(str(tmp_path / "mine" / SETTINGS))
    dag = build_dag(settings)
    check_steps(settings, training_config(settings, quantize=False))
    assert settings.data.path == str(tmp_path / "data") and settings.name == "mine"
    assert "QuantizationRewriter" in {step.id for step in dag.steps} or "quantization_rewriter" in {
        step.component for step in dag.steps
    }


def test_every_choice_has_its_reason_above_it(tmp_path):
    request = Request(data=Coco(tmp_path / "data", images=60).write(), folder="mine", weights=False)
    plan = make_plan(request, LAPTOP)
    contents = write_documents(plan)
    lines = contents[PIPELINE_CONFIG].decode().split("\n")
    for field in ("batch_size: ", "num_steps: ", "max_number_of_boxes: ", "image_resizer {", "ssd {"):
        at = next(i for i, line in enumerate(lines) if line.strip().startswith(field))
        assert lines[at - 1].strip().startswith("# "), field
    lines = contents[SETTINGS].decode().split("\n")
    for key in ("format: ", "splits: ", "split: ", "overrides:", "max_map_drop: ", "thresholds:"):
        at = next(i for i, line in enumerate(lines) if line.startswith(f"  {key}"))
        assert lines[at - 1].strip().startswith("# "), key
    (tmp_path / PIPELINE_CONFIG).write_bytes(contents[PIPELINE_CONFIG])
    assert load_checked_config(str(tmp_path / PIPELINE_CONFIG)) == plan.config
