import pytest

from detection_core.artifacts.message_files import PIPELINE_CONFIG
from detection_core.config.load import load_checked_config
from detection_core.errors import ConfigError
from pipeline.dag import build_dag
from pipeline.init.documents import GRID, SETTINGS, check_documents, write_documents
from pipeline.init.ladder import list_networks
from pipeline.init.plan import Request, make_plan
from pipeline.settings.settings_file import load_settings
from tests.pipeline.init.looked_at import LAPTOP
from tests.support.dataset_files import Coco


def test_the_files_of_every_network_are_a_workflow_that_can_be_run_or_are_refused(tmp_path):
    data = Coco(tmp_path / "data", images=30)
    data.add_image(31, boxes=[(1, 1, 9, 9)] * 40)
    path, mine = data.write(), tmp_path / "mine"
    mine.mkdir()
    for network in list_networks():
        request = Request(data=path, folder=str(mine), model=network.name, weights=False)
        contents = write_documents(make_plan(request, LAPTOP))
        assert set(contents) == {SETTINGS, PIPELINE_CONFIG, GRID}
        check_documents(contents, request.data)
        for file, content in contents.items():
            (mine / file).write_bytes(content)
        settings = load_settings(str(mine / SETTINGS))
        assert (settings.data.path, settings.name) == (str(tmp_path / "data"), "mine")
        assert settings.workspace == str(mine / "workspace")
        components = {step.component for step in build_dag(settings).steps}
        assert {"trainer", "quantization_rewriter"} <= components, network.name
    # Files that cannot be run are refused before they are written.
    contents = {SETTINGS: b"name: x\nworkspace: w\ndata: {path: d}\nmodel: {config: pipeline.config}\n"}
    with pytest.raises(ConfigError, match="no workflow can be made of it") as caught:
        check_documents({**contents, PIPELINE_CONFIG: b"model { }"}, "/data")
    assert caught.value.where == "/data"


def test_every_choice_has_its_reason_above_it(tmp_path, planned):
    plan = planned(weights=False)
    contents = write_documents(plan)
    for name, starts in (
        (PIPELINE_CONFIG, "batch_size: |num_steps: |max_number_of_boxes: |image_resizer {|ssd {"),
        (SETTINGS, "  format: |  splits: |  split: |  overrides:|  max_map_drop: |  thresholds:"),
    ):
        lines = contents[name].decode().split("\n")
        for start in starts.split("|"):
            at = next(i for i, x in enumerate(lines) if x.lstrip().startswith(start) or x.startswith(start))
            assert lines[at - 1].strip().startswith("# "), start
    (tmp_path / PIPELINE_CONFIG).write_bytes(contents[PIPELINE_CONFIG])
    assert load_checked_config(str(tmp_path / PIPELINE_CONFIG)) == plan.config
