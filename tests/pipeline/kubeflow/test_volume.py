"""Examples that steps exchange through the volume of a run."""

import json

import pytest
import yaml

from detection_core.errors import ConfigError
from detection_core.storage import files
from pipeline.kubeflow.api_errors import ClusterError
from pipeline.settings.settings_file import load_settings
from tests.pipeline.golden import SETTINGS
from tests.pipeline.kubeflow.clients import start
from tests.support.cases import refused
from tests.support.compiled import documents
from tests.support.dataset_files import Coco
from tests.support.executor_input import BUCKET, Cluster
from tests.support.tiny_training import config_text

VOLUME = ("kubeflow.workspace.size=5Gi", "kubeflow.workspace.storage_class=fast")


def _tasks(spec):
    return spec["root"]["dag"]["tasks"]


def test_examples_go_through_the_volume_of_a_run(server, connection, tmp_path):
    spec, platform = documents(*VOLUME)
    claim = {"accessModes": ["ReadWriteMany"], "storageClassName": "fast"}
    volume = {"size": "5Gi", "kubernetes": {"pvcSpecPatch": claim}}
    assert platform["platforms"]["kubernetes"]["pipelineConfig"] == {"workspace": volume}
    # The driver mounts it for a parameter that has its path: where examples are written and read.
    mounting = {
        name: parameter["runtimeValue"]["constant"]
        for name, task in _tasks(spec).items()
        for field, parameter in task["inputs"].get("parameters", {}).items()
        if "workspace_path" in str(parameter)
    }
    readers = [name for name, t in _tasks(spec).items() if "examples" in t["inputs"].get("artifacts", {})]
    path = "{{$.workspace_path}}"
    assert mounting == {"example-gen": f"{path}/shards", **dict.fromkeys(readers, path)}
    assert {"trainer", "evaluator", "data-validator"} <= set(readers) and "pusher" not in readers
    # Shards that lie elsewhere need no volume.
    other, _ = documents(*VOLUME, "data.shards_uri=s3://bucket/shards")
    assert "workspace_path" not in json.dumps(other)
    # A server checks the claim when a run is made.
    for changes, message in (
        ({}, ""),
        ({"size": ""}, "workspace size is required"),
        ({"kubernetes": {"pvcSpecPatch": {}}}, "must specify accessModes"),
        ({"kubernetes": {"pvcSpecPatch": {**claim, "storageClassName": ""}}}, "must be omitted or set"),
    ):
        platform["platforms"]["kubernetes"]["pipelineConfig"] = {"workspace": {**volume, **changes}}
        path = tmp_path / "p.yaml"
        path.write_text(yaml.safe_dump_all([spec, platform]))
        if not message:
            assert start(connection, str(path))
            continue
        with pytest.raises(ClusterError, match=message):
            start(connection, str(path))


def test_shards_lie_in_the_volume_and_the_next_step_reads_them_there(tmp_path):
    """The drivers of 2.17 and 3.0 give `/kfp-workspace` for the placeholder; here it is another folder."""
    Coco(tmp_path / "data", images=6).write("annotations.json")
    cluster = Cluster(root=tmp_path / "cluster", in_process=True)
    spec, _ = documents(*VOLUME)
    volume = tmp_path / "volume"

    def run(task, inputs, **values):
        body = spec["components"][_tasks(spec)[task]["componentRef"]["name"]]
        container = spec["deploymentSpec"]["executors"][body["executorLabel"]]["container"]
        done = cluster.run_task(body, container, values, inputs, task)
        assert done.code == 0, done.log
        return done

    splits = '{"train": 0.5, "eval": 0.5}'
    made = run("example-gen", {}, data_path=f"{tmp_path}/data", splits=splits, shards_uri=f"{volume}/shards")
    examples = made.artifacts["examples"]
    assert len([*(volume / "shards").rglob("*.tfrecord")]) == 2
    assert {p.name for p in made.folder["examples"].rglob("*tfrecord*")} == {
        "examples.tfrecord_manifest.json"
    }
    config = f"{BUCKET}/made/config"
    files.write_text(f"{cluster.local(config)}/pipeline.config", config_text())
    inputs = {"examples": cluster.artifact(examples["uri"], examples["metadata"])}
    inputs["pipeline_config"] = cluster.artifact(config, {"artifact_type": "PipelineConfig"})
    checks = '{"unmatched_boxes": {"severity": "off"}}'
    done = run("data-validator", inputs, kfp_workspace=str(volume), checks=checks)
    assert done.parameters["stop_reasons"] == ""


def test_nodes_of_a_training_do_not_mount_it():
    overrides = [*VOLUME, "kubeflow.work_dir=/w", "kubeflow.steps.trainer.nodes=2"]
    expected = r"kubeflow\.workspace\.size: expected none with steps\.trainer\.nodes.*set data\.shards_uri"
    refused(ConfigError, expected, load_settings, str(SETTINGS), overrides, check_files=False)
