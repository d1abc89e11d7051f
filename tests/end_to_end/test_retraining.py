"""Four weeks of a schedule: every week a span of data arrives and the same settings run again.

Shards and published versions are on an object store, as on a cluster.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from components.publishing.destination import PushDestination
from detection_core.errors import DataError
from detection_core.storage.shard_cache import shard_cache
from pipeline.local.local_run import RunOptions, run_locally
from pipeline.local.run_summary import summarise
from pipeline.local.workspace import Workspace
from pipeline.report.writer import write_report
from pipeline.settings.settings_file import load_settings
from tests.end_to_end.conftest import states
from tests.support.detectors import family_config
from tests.support.object_store import s3_server
from tests.support.plain_backbone import PLAIN
from tests.support.tiny_training import config_text

pytestmark = [pytest.mark.slow, pytest.mark.tfx, pytest.mark.timeout(900)]

SETTINGS = """
name: weekly
workspace: workspace
data:
  path: weekly/span-{SPAN:2}
  splits: {train: train.json, eval: eval.json}
  window: 2
  span_ready_file: _SUCCESS
  shards_uri: BUCKET/shards
model:
  config: pipeline.config
  overrides: {train_config.batch_size: 8}
train: {warm_start: deployed}
evaluate:
  thresholds: {DetectionBoxes_Precision/mAP: {lower_bound: 0.05, min_change: 0.0}}
  pictures: 1
export: {formats: [float32], max_map_drop: 1.0}
push: {destination: BUCKET/pushed}
"""
METRIC = "DetectionBoxes_Precision/mAP"
STEPS = 60
CONFIG_TEXT = (
    config_text(STEPS, PLAIN)
    .replace("learning_rate_base: 0.05", "learning_rate_base: 0.1")
    .replace("warmup_steps: 0", "warmup_steps: 6 warmup_learning_rate: 0.01")
)


# The settings of the schedule with a detector of google/automl's, published whatever it finds.
AUTOML_SETTINGS = SETTINGS.replace("lower_bound: 0.05, min_change: 0.0", "min_change: -1.0")
AUTOML_CONFIG = family_config("efficientdet", 3)


class Schedule:
    """The folder where the spans arrive, and the runs that a clock would start."""

    def __init__(self, folder, bucket, settings=SETTINGS, config=CONFIG_TEXT):
        self.folder = folder
        (folder / "settings.yaml").write_text(settings.replace("BUCKET", bucket))
        (folder / "pipeline.config").write_text(config)
        self.destination = PushDestination(f"{bucket}/pushed")

    def span(self, number):
        return self.folder / "weekly" / f"span-{number:02}"

    def arrives(self, number, *, train=56, swapped=False, ready=True):
        """Write grey scenes with a dark or bright square each; `swapped` names them wrongly for training."""
        folder, rng = self.span(number), np.random.default_rng(number)
        (folder / "images").mkdir(parents=True)
        categories = [{"id": 1, "name": "dark"}, {"id": 2, "name": "bright"}]
        for split, count in (("train", train), ("eval", 24)):
            wrong = swapped and split == "train"
            scenes = [_scene(rng, folder / "images", split, n, wrong) for n in range(count)]
            images, annotations = zip(*scenes, strict=True)
            content = {"images": images, "annotations": annotations, "categories": categories}
            (folder / f"{split}.json").write_text(json.dumps(content))
        if ready:
            (folder / "_SUCCESS").touch()

    def fires(self):
        """Run once, with a report as `detflow run` has it; returns the run and its summary."""
        settings = load_settings(str(self.folder / "settings.yaml"))
        run = run_locally(settings, RunOptions(write_report=write_report))
        return run, summarise(run)[1]

    def evaluation(self, run):
        [folder] = [s.outputs["evaluation"] for s in run.steps if s.id == "evaluator"]
        return json.loads((Path(folder) / "metrics.json").read_text())


def _scene(rng, folder, split, number, wrong):
    pixels = rng.integers(100, 150, (64, 64, 3), dtype=np.uint8)
    side, bright = int(rng.integers(24, 33)), number % 2
    x, y = (int(corner) for corner in rng.integers(0, 64 - side, 2))
    pixels[y : y + side, x : x + side] = 230 if bright else 20
    name = f"{split}-{number}.png"
    Image.fromarray(pixels).save(folder / name)
    image = {"id": number + 1, "file_name": name, "width": 64, "height": 64}
    category = (1 - bright if wrong else bright) + 1
    fields = {"id": number + 1, "image_id": number + 1, "category_id": category, "iscrowd": 0}
    return image, {**fields, "bbox": [x, y, side, side], "area": side * side}


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    monkeypatch.setenv("DETFLOW_SHARD_CACHE", str(tmp_path / "cache"))
    shard_cache.cache_clear()
    with s3_server() as uri:
        yield uri
    shard_cache.cache_clear()


def test_a_schedule_trains_only_on_new_data_and_publishes_only_what_is_better(tmp_path, bucket):
    weekly = Schedule(tmp_path, bucket)

    weekly.arrives(1)
    run, first = weekly.fires()
    assert first["pushed"]["pushed"], first["pushed"]
    [examples] = [s.outputs["examples"] for s in run.steps if s.id == "example_gen"]
    assert not list(Path(examples).rglob("*.tfrecord"))
    assert first["spans"] == {"train": ["1"], "evaluate": ["1"]}
    assert weekly.evaluation(run)["baseline"] is None
    assert _started_from(run) == "random weights"

    weekly.arrives(2)
    run, second = weekly.fires()
    assert second["pushed"]["pushed"], second["pushed"]
    assert second["spans"] == {"train": ["1", "2"], "evaluate": ["2"]}
    assert "weights of" in _started_from(run)
    # Both were measured on the new week's scenes, so the old model's number is not the published one.
    measured, versions = weekly.evaluation(run), weekly.destination.versions()
    assert measured["images"] == 24
    assert measured["metrics"][METRIC] > measured["baseline"][METRIC] != versions[0].metrics[METRIC]
    assert [v.number for v in versions] == [first["pushed"]["version"], second["pushed"]["version"]]
    assert versions[1].baseline_version == str(versions[0].number)
    page = Path(second["places"]["report"]).read_text(encoding="utf-8")
    assert "train from 1, 2" in page and "eval from 2" in page

    # The third week is still being written: nothing has changed, and nothing is done.
    weekly.arrives(3, ready=False)
    run, same = weekly.fires()
    assert set(states(same).values()) == {"cached"}
    assert run.checks["data_spans"] == json.dumps(second["spans"])

    # It arrives damaged.
    for path in (weekly.span(3) / "images").iterdir():
        path.write_bytes(path.read_bytes()[:60])
    (weekly.span(3) / "_SUCCESS").touch()
    with pytest.raises(DataError, match="in quarantine"):
        weekly.fires()
    failed = Workspace(str(tmp_path / "workspace")).run()
    assert failed.status == "failed"
    assert {s.id: s.state for s in failed.steps}["trainer"] == "not run"
    assert json.loads(failed.checks["data_spans"])["evaluate"] == ["3"]
    assert weekly.destination.current() == versions[1]

    # Someone takes it away; the fourth week was labelled wrongly for training.
    weekly.span(3).rename(tmp_path / "damaged")
    weekly.arrives(4, train=160, swapped=True)
    run, worse = weekly.fires()
    assert worse["status"] == "succeeded" and not worse["pushed"]["pushed"]
    assert worse["spans"] == {"train": ["2", "4"], "evaluate": ["4"]}
    # The first week has left the window; its statistics are still compared with.
    assert list(json.loads(run.checks["earlier_spans"])) == ["1"]
    assert sorted(os.listdir(run.checks["span_folder"])) == ["1", "2", "4"]
    assert worse["pushed"]["reasons"][0].startswith(f"evaluator: {METRIC} is ")
    assert "the baseline's" in worse["pushed"]["reasons"][0]
    measured = weekly.evaluation(run)
    assert measured["metrics"][METRIC] < measured["baseline"][METRIC]
    assert weekly.destination.current() == versions[1]


@pytest.mark.zoo
def test_a_schedule_goes_on_with_a_deployed_efficientdet(tmp_path, bucket):
    weekly = Schedule(tmp_path, bucket, AUTOML_SETTINGS, AUTOML_CONFIG)
    weekly.arrives(1, train=16)
    _, first = weekly.fires()
    assert first["pushed"]["pushed"], first["pushed"]
    weekly.arrives(2, train=16)
    run, second = weekly.fires()
    assert second["pushed"]["pushed"], second["pushed"]
    assert second["spans"] == {"train": ["1", "2"], "evaluate": ["2"]}
    assert "weights of" in _started_from(run)
    assert weekly.evaluation(run)["baseline"] is not None
    published = [week["pushed"]["version"] for week in (first, second)]
    assert [v.number for v in weekly.destination.versions()] == published
    _, same = weekly.fires()
    assert set(states(same).values()) == {"cached"}


def _started_from(run):
    [folder] = [s.outputs["model_run"] for s in run.steps if s.id == "trainer"]
    return json.loads((Path(folder) / "train_report.json").read_text())["started_from"]
