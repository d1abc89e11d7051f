"""The train task on two workers that are real processes: one result, after stops, losses and failures."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from detection_core.artifacts.model_run import BATCH_PARTS, LEFT_OUT, SKIPPED_BATCHES, VALIDATIONS
from detection_core.builders.train_plan import build_train_plan
from detection_core.detectors.family import FAMILIES, register_family
from detection_core.exporters.detector_folder import load_detector
from detection_core.tasks.fitting.detector_measure import DetectorMeasure
from tests.support.quadrants import QUADRANT_FAMILY
from tests.support.record_files import write_records
from tests.support.tiny_training import write_examples

STEPS, EVERY, VALIDATED = 240, 40, 90  # updates, those between checkpoints, and between validations
SCRIPT = f"""
import json, sys
from detection_core.quick_imports import import_quickly
import_quickly()
from detection_core.config.input_paths import point_at_examples
from detection_core.config.load import parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.detectors.family import register_family
from detection_core.tasks.train import train
from tests.support.quadrants import CONFIG, QUADRANT_FAMILY

root, name, changes, prelude = sys.argv[1:]
exec(prelude)
register_family(QUADRANT_FAMILY)
changes = {{"train_config.num_steps": {STEPS}, **json.loads(changes)}}
report = train(
    point_at_examples(
        apply_overrides(parse_pipeline_config(CONFIG), changes), f"{{root}}/examples", eval_split="train"
    ),
    model_dir=f"{{root}}/{{name}}/model",
    model_run_dir=f"{{root}}/{{name}}/run",
    work_dir=f"{{root}}/work",
    log_every=10,
)
print("started at", report.start_step, "loss", report.loss, "best", report.best_step)
"""


VALIDATING = {
    "train_config.validation.every_steps": VALIDATED,
    "train_config.optimizer.use_moving_average": True,
    "eval_config.use_moving_averages": True,
}


def start_workers(
    root: Path, changes: Mapping[str, Any] = VALIDATING, prelude: str = ""
) -> list[subprocess.Popen[str]]:
    """Start two workers; each has its own output folder, so that their files can be told apart.

    `changes` are overrides of the config; `prelude` is code that runs before the training.
    """
    with socket.create_server(("localhost", 0)) as one, socket.create_server(("localhost", 0)) as other:
        addresses = [f"localhost:{s.getsockname()[1]}" for s in (one, other)]
    processes = []
    for index in range(2):
        place = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        environment = {**os.environ, "TF_CONFIG": json.dumps(place), "TF_CPP_MIN_LOG_LEVEL": "2"}
        command = [sys.executable, "-c", SCRIPT, str(root), f"worker{index}", json.dumps(changes), prelude]
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        processes.append(subprocess.Popen(command, env=environment, **output))
    return processes


def ends(processes: list[subprocess.Popen[str]]) -> tuple[list[int], list[str]]:
    """Wait for both workers; return exit codes and what they printed."""
    try:
        printed = [p.communicate(timeout=240)[0] for p in processes]
    finally:
        for p in processes:
            p.kill()
    return [p.returncode for p in processes], printed


def send_beyond(root: Path, workers: list[subprocess.Popen[str]], step: int, number: int) -> None:
    """Send the second worker a signal once training has got beyond a step."""
    deadline = time.monotonic() + 240
    while not any(last_step(path) > step for path in (root / "work").glob("*/history.jsonl")):
        assert time.monotonic() < deadline and workers[0].poll() is None, ends(workers)
        time.sleep(0.02)
    workers[1].send_signal(number)


def last_step(history: Path) -> int:
    whole = [line for line in history.read_text().split("\n")[:-1] if line]
    return int(json.loads(whole[-1])["step"]) if whole else 0


@pytest.fixture(autouse=True)
def family():
    register_family(QUADRANT_FAMILY)
    yield
    FAMILIES.pop(QUADRANT_FAMILY.name, None)


@pytest.mark.slow
def test_two_workers_lose_one_stop_together_and_resume_to_one_result(tmp_path):
    write_examples(tmp_path / "examples")
    workers = start_workers(tmp_path)
    send_beyond(tmp_path, workers, EVERY, signal.SIGKILL)
    codes, printed = ends(workers)
    # The other one ends by itself, so that whatever restarts what has failed restarts both.
    assert codes[1] == -signal.SIGKILL and codes[0] not in (0, 2), printed
    killed_at = last_step(next((tmp_path / "work").glob("*/history.jsonl")))

    workers = start_workers(tmp_path)
    send_beyond(tmp_path, workers, min(killed_at, STEPS - 100), signal.SIGTERM)
    codes, printed = ends(workers)
    # The chief got no signal; it agreed to stop, as no worker can save or go on alone.
    assert codes == [143, 143], printed
    assert not (tmp_path / "worker0").exists()

    codes, printed = ends(start_workers(tmp_path))
    assert codes == [0, 0], printed
    starts = {line for text in printed for line in text.splitlines() if line.startswith("started at")}
    assert len(starts) == 1, "the workers saw different losses"
    (line,) = starts
    assert killed_at - EVERY <= int(line.split()[2]) < STEPS
    best_step = int(line.split()[-1])
    history = (tmp_path / "worker0" / "run" / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in history] == list(range(10, STEPS + 1, 10))
    validations = (tmp_path / "worker0" / "run" / "validation.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in validations] == [VALIDATED, 2 * VALIDATED, STEPS]
    # Each worker detected in half of the images; one process finds the same with the written weights.
    (best,) = [line for line in VALIDATIONS.read(str(tmp_path / "worker0" / "run")) if line.step == best_step]
    written = load_detector(str(tmp_path / "worker0" / "model"))
    plan = build_train_plan(written.config)
    assert plan.validation is not None
    alone = DetectorMeasure(written.model, written.config, written.label_map, plan.validation)()
    assert best.metrics == alone
    assert (tmp_path / "worker0" / "model" / "Format-Serving" / "saved_model.pb").exists()
    assert not (tmp_path / "worker1").exists()


# Losses of more than one image ask for more memory than there are addresses.
HUNGRY = """
import tensorflow as tf
from tests.support.quadrants import QuadrantDetector
losses = QuadrantDetector.losses
def hungry(self, batch, training):
    numbers = tf.constant(1 << 46 if batch.images.pixels.shape[0] > 1 else 1, tf.int64)
    none = 0.0 * tf.reduce_sum(tf.random.stateless_uniform([numbers], [0, 0]))
    return {name: loss + none for name, loss in losses(self, batch, training).items()}
QuadrantDetector.losses = hungry
"""
# As for examples that are too large to keep their images in memory: each worker decodes its own share.
UNCACHED = """
from detection_core.data.reader import Reader
Reader.decoded_bytes = lambda self, limit: limit + 1
"""
# One of twelve records may be left out, not only one of a hundred.
TOLERANT = """
from detection_core.training.loop_options import TrainOptions
TrainOptions.__init__.__kwdefaults__["skip_limit"] = 0.1
"""
RATE = "train_config.optimizer.momentum_optimizer.learning_rate.cosine_decay_learning_rate.learning_rate_base"
DAMAGED = 7
FAULTS = HUNGRY + UNCACHED + TOLERANT


@pytest.mark.slow
def test_what_one_worker_finds_holds_for_all_when_they_start_again(tmp_path):
    """Memory for half of a batch, a record that does not decode, and weights where the loss is no number."""
    examples = write_examples(tmp_path / "examples", images=12)
    (path,) = (examples / "Split-train").iterdir()
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    example = tf.train.Example.FromString(records[DAMAGED])
    (image,) = example.features.feature["image/encoded"].bytes_list.value
    example.features.feature["image/encoded"].bytes_list.value[:] = [image[: len(image) // 2]]
    records[DAMAGED] = example.SerializeToString()
    write_records(path, records)
    changes = {"batch_size": 4, "gradient_accumulation_steps": 0}
    changes = {RATE: 1e30} | {f"train_config.{name}": value for name, value in changes.items()}

    codes, printed = ends(start_workers(tmp_path, changes, FAULTS))
    assert os.EX_TEMPFAIL in codes and not {0, 2} & set(codes), printed
    (work,) = (tmp_path / "work").iterdir()
    assert BATCH_PARTS.read(str(work)).gradient_accumulation_steps == 2

    if not LEFT_OUT.read(str(work)):  # unless a worker met it while the other one ran out of memory
        codes, printed = ends(start_workers(tmp_path, changes, FAULTS))
        assert os.EX_TEMPFAIL in codes and not {0, 2} & set(codes), printed
    assert [record.index for record in LEFT_OUT.read(str(work))] == [DAMAGED]

    codes, printed = ends(start_workers(tmp_path, changes, FAULTS))
    assert codes == [1, 1] and all("expected a finite loss" in text for text in printed), printed
    (skipped,) = SKIPPED_BATCHES.read(str(work))
    weights = load_detector(str(work / skipped.folder / "model")).model.variables
    assert all(tf.reduce_all(tf.math.is_finite(variable)) for variable in weights)
