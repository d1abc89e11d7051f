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


def losses(output):
    """Return the last losses of a training that wrote a detector."""
    assert (output / "model" / "Format-Serving" / "saved_model.pb").exists()
    return json.loads((output / "model_run" / "train_report.json").read_text())["losses"]


def test_two_workers_train_as_one_does(tmp_path):
    """All images are the same; only batch norm sees half of the batch in each worker."""
    write_examples(tmp_path / "examples", images=1)
    text = config_text(8).replace("batch_size: 2", "batch_size: 4").replace(AUGMENTATION, "")
    (tmp_path / "pipeline.config").write_text(text.replace("base: 0.05", "base: 0.001"))
    plain = ("-m", "pipeline.cli", "train")
    run(tmp_path, "first", *plain, "--set=train_config.num_steps=1")
    start = f"--warm-start={tmp_path / 'first' / 'model'}"
    run(tmp_path, "one", *plain, start)
    two = run(tmp_path, "two", str(EXAMPLE), start, "--workers=2", "--no-dashboard")
    assert "2 workers, 8 steps, loss " in two.stdout
    # Ray names the process before each line of a worker.
    assert len(set(re.findall(r"RayTrainWorker pid=(\d+)", two.stdout + two.stderr))) == 2
    found, expected = (losses(tmp_path / name)["Loss/total_loss"] for name in ("two", "one"))
    # They differed by 0.8 %. Half the batch size in one process changed the loss by 4 %.
    assert found == pytest.approx(expected, rel=0.03)
