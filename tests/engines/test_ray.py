"""A training on worker processes that Ray Train starts."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tiny_training import config_text, write_examples

EXAMPLE = Path(__file__).parents[2] / "examples" / "ray" / "train.py"
AUGMENTATION = "data_augmentation_options { random_horizontal_flip { } }"
pytestmark = [
    pytest.mark.engines,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not os.environ.get("DETFLOW_ENGINES"), reason="make test-engines runs it"),
]


def run(root, output, *command):
    """Run a training program and return what it prints."""
    places = {"config": root / "pipeline.config", "examples": root / "examples", "output": root / output}
    arguments = [*command, *(f"--{name}={path}" for name, path in places.items())]
    done = subprocess.run([sys.executable, *arguments], check=False, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    return done


def trained(root, workers):
    """Train by the example; return its report, and the processes that trained."""
    output = root / f"workers-{workers}"
    start = f"--warm-start={root / 'first' / 'model'}"
    done = run(root, output.name, str(EXAMPLE), f"--workers={workers}", start)
    assert f"{workers} workers, 8 steps, loss " in done.stdout
    assert (output / "model" / "Format-Serving" / "saved_model.pb").exists()
    report = json.loads((output / "model_run" / "train_report.json").read_text())
    # Ray names the process before each line of a worker.
    return report, set(re.findall(r"RayTrainWorker pid=(\d+)", done.stdout + done.stderr))


def test_two_workers_train_as_one_does(tmp_path):
    """All images are the same, so that each worker's part has the gradients of the whole batch."""
    write_examples(tmp_path / "examples", images=1)
    text = config_text(8).replace("batch_size: 2", "batch_size: 4").replace(AUGMENTATION, "")
    (tmp_path / "pipeline.config").write_text(text.replace("base: 0.05", "base: 0.001"))
    run(tmp_path, "first", "-m", "pipeline.cli", "train", "--set=train_config.num_steps=1")
    one, processes = trained(tmp_path, 1)
    assert len(processes) == 1
    two, processes = trained(tmp_path, 2)
    assert len(processes) == 2
    assert two["losses"].keys() == one["losses"].keys()
    # Sums in another order.
    assert two["losses"] == pytest.approx(one["losses"], rel=1e-3)
