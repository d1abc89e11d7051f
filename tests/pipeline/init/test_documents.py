from __future__ import annotations

import pytest

from detection_core.artifacts.message_files import PIPELINE_CONFIG
from detection_core.config.load import load_checked_config
from detection_core.errors import ConfigError
from detection_core.zoo.cache import CACHE_VARIABLE, MIRROR_VARIABLE
from pipeline.dag import build_dag
from pipeline.init.documents import GRID, SETTINGS, check_documents, write_documents
from pipeline.init.ladder import list_networks
from pipeline.init.plan import Request, make_plan
from pipeline.settings.settings_file import load_settings
from tests.pipeline.init.looked_at import LAPTOP
from tests.support.dataset_files import Coco


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
    check_documents(contents, request.data)
    (tmp_path / "mine").mkdir()
    for file, content in contents.items():
        (tmp_path / "mine" / file).write_bytes(content)
    settings = load_settings(str(tmp_path / "mine" / SETTINGS))
    assert (settings.data.path, settings.name) == (str(tmp_path / "data"), "mine")
    assert settings.workspace == str(tmp_path / "mine" / "workspace")
    assert {"trainer", "quantization_rewriter"} <= {step.component for step in build_dag(settings).steps}


def test_files_that_cannot_be_run_are_refused_before_they_are_written():
    contents = {SETTINGS: b"name: x\nworkspace: w\ndata: {path: d}\nmodel: {config: pipeline.config}\n"}
    with pytest.raises(ConfigError, match="no workflow can be made of it") as caught:
        check_documents({**contents, PIPELINE_CONFIG: b"model { }"}, "/data")
    assert caught.value.where == "/data"


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
