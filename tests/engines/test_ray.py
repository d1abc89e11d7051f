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


def trained(root, workers):
    """Train by the example; return its report, and the processes that trained."""
    output = root / f"workers-{workers}"
    places = {"config": root / "pipeline.config", "examples": root / "examples", "output": output}
    command = [sys.executable, str(EXAMPLE), f"--workers={workers}"]
    command += [f"--{name}={path}" for name, path in places.items()]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed[-6000:]
    assert f"{workers} workers, 8 steps, loss " in done.stdout
    assert (output / "model" / "Format-Serving" / "saved_model.pb").exists()
    report = json.loads((output / "model_run" / "train_report.json").read_text())
    # Ray names the process before each line of a worker.
    return report, set(re.findall(r"RayTrainWorker pid=(\d+)", printed))


def test_two_workers_train_as_one_does(tmp_path):
    """All images are the same, so that each worker's part has the gradients of the whole batch."""
    write_examples(tmp_path / "examples", images=1)
    text = config_text(8).replace("batch_size: 2", "batch_size: 4 seed: 7").replace(AUGMENTATION, "")
    (tmp_path / "pipeline.config").write_text(text)
    one, processes = trained(tmp_path, 1)
    assert len(processes) == 1
    two, processes = trained(tmp_path, 2)
    assert len(processes) == 2
    assert two["losses"].keys() == one["losses"].keys()
    # Sums in another order.
    assert two["losses"] == pytest.approx(one["losses"], rel=1e-3)
