"""The steps on Beam give the results of one process on worker processes of Dask."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.beam_programs import calibrated, evaluated, ingested, shards, validated
from tests.support.command_line import FEW_UPDATES
from tests.support.dataset_files import Coco

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "dask" / "run.py"
pytestmark = [
    pytest.mark.engines,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not os.environ.get("DETFLOW_ENGINES"), reason="make test-engines runs it"),
]


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes with a thread each."""
    from dask.distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as made,
        Client(made) as client,
    ):
        yield client


def on_dask(client):
    """Return Beam's options as the example sets them."""
    address = client.scheduler.address
    runner = "--runner=apache_beam.runners.dask.dask_runner.DaskRunner"
    return (runner, f"--dask_client_address={address}", "--dask_partition_size=1")


def test_shards_of_two_workers_are_those_of_one_process(cluster, tmp_path):
    from dask.distributed import get_task_stream

    Coco(tmp_path / "data", images=40).write("train.json")
    here = shards(tmp_path / "data", tmp_path / "here")
    assert len(here) == 10
    with get_task_stream(cluster) as stream:
        assert shards(tmp_path / "data", tmp_path / "dask", *on_dask(cluster)) == here
    workers = [task["worker"] for task in stream.data if "apply_dofn_to_bundle" in str(task["key"])]
    assert len(set(workers)) == 2 and len(workers) >= 10


def test_annotations_in_many_files_are_read_by_its_workers(cluster, tmp_path, caplog):
    here = ingested(tmp_path / "data", tmp_path / "here")
    assert b"007.xml" in here["quarantine.jsonl"]
    with caplog.at_level("INFO"):
        assert ingested(tmp_path / "data", tmp_path / "dask", *on_dask(cluster)) == here
    assert "210 annotation files in 210 lists" in caplog.text


def test_the_evaluation_of_two_workers_is_that_of_one_process(cluster, tmp_path):
    here = evaluated(tmp_path / "here")
    assert {"BLESSED", "curves.json", "coco_results.json"} <= here.keys()
    assert evaluated(tmp_path / "dask", *on_dask(cluster)) == here


def test_so_are_the_validation_and_the_ranges_of_a_calibration(cluster, tmp_path):
    here = validated(tmp_path / "here")
    assert {"findings.json", "box_statistics.json"} <= {path.rpartition("/")[2] for path in here}
    assert validated(tmp_path / "dask", *on_dask(cluster)) == here
    ranges = calibrated(tmp_path / "ranges")
    assert len(set(ranges.values())) == 3
    assert calibrated(tmp_path / "ranges_dask", *on_dask(cluster)) == ranges


def test_the_example_runs_a_workflow_with_the_examples_of_one_process(tmp_path):
    scenes, counts = tmp_path / "scenes", ["--train", "12", "--eval", "8", "--test", "4"]
    compose = [sys.executable, ROOT / "examples" / "digits" / "compose.py", scenes, *counts]
    subprocess.run(compose, check=True, timeout=900)
    small = (
        f"data.path={scenes}",
        "data.shard_examples=4",
        "model.ssd.feature_extractor.type=ssd_mobilenet_v1_fpn_keras",
        "model.ssd.image_resizer={fixed_shape_resizer {height: 64 width: 64}}",
        *FEW_UPDATES,
        "quantize.enabled=false",
        "export.formats=[float32]",
    )
    made = {}
    for name, command in {"dask": [EXAMPLE], "plain": ["-m", "pipeline.cli", "run"]}.items():
        sets = [f"--set={change}" for change in (*small, f"workspace={tmp_path / name}")]
        words = [sys.executable, *command, ROOT / "examples" / "digits" / "settings.yaml", *sets]
        done = subprocess.run(words, check=False, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-4000:]
        made[name] = {path.name: path.read_bytes() for path in (tmp_path / name).rglob("examples-*.tfrecord")}
        assert ("DaskRunner" in done.stderr) == (name == "dask"), done.stderr[-4000:]
    assert made["dask"] == made["plain"] and len(made["plain"]) >= 3
