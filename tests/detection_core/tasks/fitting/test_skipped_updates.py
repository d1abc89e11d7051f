"""A batch whose loss is no number is kept, and shows it again when it is trained on alone."""

import dataclasses
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from detection_core.artifacts.model_run import SKIPPED_BATCHES, TRAIN_REPORT
from detection_core.config.input_paths import point_at_examples
from detection_core.config.load import load_pipeline_config, parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.data.records import image_name
from detection_core.detectors.base import TOTAL_LOSS, with_total
from detection_core.detectors.family import FAMILIES, register_family
from detection_core.errors import ModelError
from detection_core.structures import Batch
from tests.support.detectors import train_below
from tests.support.quadrants import CONFIG, QUADRANT_FAMILY, QuadrantDetector
from tests.support.record_files import write_records
from tests.support.tiny_training import write_examples

pytestmark = pytest.mark.slow

BAD = 3  # the image whose box has no height


class HeightDetector(QuadrantDetector):
    """Its loss has the logarithm of a box's height, as a box coder without a floor would."""

    def losses(self, batch: Batch, training: bool) -> dict[str, tf.Tensor]:
        boxes = batch.truth.boxes[:, 0]
        height = tf.math.log(boxes[:, 2] - boxes[:, 0])
        parts = super().losses(batch, training)
        del parts[TOTAL_LOSS]
        return with_total(parts | {"Loss/height": tf.reduce_mean(height**2)})


@pytest.fixture(scope="module", autouse=True)
def family():
    build = lambda message, where, seed: HeightDetector(message.num_classes)  # noqa: E731
    register_family(dataclasses.replace(QUADRANT_FAMILY, build=build))
    yield
    FAMILIES.pop("quadrants", None)


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    folder = write_examples(tmp_path_factory.mktemp("skipped") / "examples", images=8)
    (path,) = (folder / "Split-train").iterdir()
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    example = tf.train.Example.FromString(records[BAD])
    top = example.features.feature["image/object/bbox/ymin"].float_list.value[0]
    example.features.feature["image/object/bbox/ymax"].float_list.value[:] = [top]
    records[BAD] = example.SerializeToString()
    write_records(path, records)
    return folder


def run(root: Path, examples: Path, text: str = CONFIG, warm_start: str = "", **overrides: Any):
    config = apply_overrides(parse_pipeline_config(text), {"train_config.num_steps": 8} | overrides)
    config = point_at_examples(config, str(examples), eval_split="train")
    return train_below(root, config, warm_start_dir=warm_start, log_every=1)


def test_training_stops_and_its_batch_shows_it_again(tmp_path, examples):
    with pytest.raises(ModelError, match="expected a finite loss") as caught:
        run(tmp_path, examples)
    found = re.match(r"training step (\d+): .*`detflow train (.*)`", str(caught.value))
    assert found and repr(str(BAD)) in str(caught.value)
    words = shlex.split(found[2])
    places = dict(zip(words[::2], words[1::2], strict=True))
    (line,) = SKIPPED_BATCHES.read(str(Path(places["--config"]).parents[2]))
    assert (line.step, line.losses["Loss/height"]) == (int(found[1]), None)
    kept = Path(places["--examples"])
    stored = list(tf.data.TFRecordDataset(str(next(kept.glob("Split-train/*")))).as_numpy_iterator())
    assert [image_name(record) for record in stored] == line.images
    assert len(stored) == 2 and str(BAD) in line.images

    # The records are enough, in the first update, with the weights that the training had.
    text = Path(places["--config"]).read_text()
    with pytest.raises(ModelError, match="training step 0: expected a finite loss"):
        run(tmp_path / "again", kept, text, places["--warm-start"])
    assert not load_pipeline_config(places["--config"]).train_input_reader.shuffle


def test_a_training_goes_on_without_it_and_says_how_often_up_to_a_bound(tmp_path, examples):
    report = run(tmp_path, examples, **{"train_config.max_skipped_updates": 4})
    # Eight updates of two images see each of eight images twice.
    assert report.skipped_updates == 2 == TRAIN_REPORT.read(str(tmp_path / "run")).skipped_updates
    history = [json.loads(x) for x in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    assert history[0]["skipped_updates"] <= 1 and history[-1]["skipped_updates"] == 2
    lines = SKIPPED_BATCHES.read(str(tmp_path / "run"))
    assert len(lines) == 2 and all(str(BAD) in line.images for line in lines)
    with pytest.raises(ModelError, match="after 1 updates that were left out"):
        run(tmp_path / "too many", examples, **{"train_config.max_skipped_updates": 1})
