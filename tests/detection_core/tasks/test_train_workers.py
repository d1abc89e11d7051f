"""The train task on two workers that are real processes: one result, after a stop and after a loss."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.tiny_training import write_examples

STEPS, EVERY, VALIDATED = 240, 40, 90  # updates, those between checkpoints, and between validations
SCRIPT = f"""
import sys
from detection_core.quick_imports import import_quickly
import_quickly()
from detection_core.config.input_paths import point_at_examples
from detection_core.config.load import parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.detectors.family import register_family
from detection_core.tasks.train import train
from tests.support.quadrants import CONFIG, QUADRANT_FAMILY

root, name = sys.argv[1:]
register_family(QUADRANT_FAMILY)
changes = {{"train_config.num_steps": {STEPS}, "train_config.validation.every_steps": {VALIDATED}}}
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


def start_workers(root: Path) -> list[subprocess.Popen[str]]:
    """Start two workers; each has its own output folder, so that their files can be told apart."""
    with socket.create_server(("localhost", 0)) as one, socket.create_server(("localhost", 0)) as other:
        addresses = [f"localhost:{s.getsockname()[1]}" for s in (one, other)]
    processes = []
    for index in range(2):
        place = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        environment = {**os.environ, "TF_CONFIG": json.dumps(place), "TF_CPP_MIN_LOG_LEVEL": "2"}
        command = [sys.executable, "-c", SCRIPT, str(root), f"worker{index}"]
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
    assert killed_at - EVERY <= int(starts.pop().split()[2]) < STEPS
    history = (tmp_path / "worker0" / "run" / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in history] == list(range(10, STEPS + 1, 10))
    validations = (tmp_path / "worker0" / "run" / "validation.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in validations] == [VALIDATED, 2 * VALIDATED, STEPS]
    assert all("DetectionBoxes_Precision/mAP" in json.loads(line)["metrics"] for line in validations)
    assert (tmp_path / "worker0" / "model" / "Format-Serving" / "saved_model.pb").exists()
    assert not (tmp_path / "worker1").exists()
