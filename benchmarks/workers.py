"""Processor time of a training step shared by several worker processes, beside that of one.

    python -m benchmarks.workers [--workers 1 2 4] [--batch 8] [--steps 10 30] [--turns 3] [--keep NAME]

Each contender is a training of SSD MobileNetV2 FPN-Lite by `python -m components.trainer`: one process, or
several that TF_CONFIG joins on this machine. The batch is the total of all, so that the network's work is the
same; what a step costs more is communication and what each worker does by itself. Start and first step are
taken off by the difference of two lengths. Both save ten checkpoints, as do all trainings of ten steps or
more, so that these are taken off, too. Contenders take turns. Each process has one core, so that their
threads do not wait for each other.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.results import ROOT, add_keep, keep

CONFIG = ROOT / "benchmarks" / "ssd_mobilenet_v2_fpnlite.config"
_IMAGES, _OBJECTS = 16, 4
_TRAINING = """
train_config {
  batch_size: 8 num_steps: 8 max_number_of_boxes: 10
  optimizer { momentum_optimizer { learning_rate { constant_learning_rate { learning_rate: 0.001 } } } }
}
"""


def write_examples(folder: Path, size: int) -> None:
    """Write one shard of noise with a few boxes each, and the label map."""
    import tensorflow as tf

    def feature(values: Sequence[bytes | float | int]) -> tf.train.Feature:
        kinds = {bytes: ("bytes_list", tf.train.BytesList), int: ("int64_list", tf.train.Int64List)}
        field, kind = kinds.get(type(values[0]), ("float_list", tf.train.FloatList))
        return tf.train.Feature(**{field: kind(value=values)})

    draws = np.random.default_rng(0)
    split = folder / "Split-train"
    split.mkdir(parents=True)
    (folder / "label_map.pbtxt").write_text(
        "".join(f"item {{ id: {n} name: 'c{n}' }}\n" for n in range(1, 91))
    )
    with tf.io.TFRecordWriter(str(split / "examples-00000-of-00001.tfrecord")) as writer:
        for number in range(_IMAGES):
            stream = io.BytesIO()
            Image.fromarray(draws.integers(0, 256, (size, size, 3), np.uint8)).save(stream, "JPEG")
            low = draws.uniform(0.0, 0.5, (2, _OBJECTS))
            high = low + 0.4
            columns = {
                "image/encoded": [stream.getvalue()],
                "image/source_id": [str(number).encode()],
                "image/object/class/label": draws.integers(1, 91, _OBJECTS).tolist(),
                "image/object/bbox/ymin": low[0].tolist(),
                "image/object/bbox/xmin": low[1].tolist(),
                "image/object/bbox/ymax": high[0].tolist(),
                "image/object/bbox/xmax": high[1].tolist(),
            }
            features = tf.train.Features(feature={key: feature(values) for key, values in columns.items()})
            writer.write(tf.train.Example(features=features).SerializeToString())


def cpu_seconds(folder: Path, workers: int, steps: int, batch: int) -> float:
    """Train with some workers from the start, and return the processor time of all of them."""
    servers = [socket.create_server(("localhost", 0)) for _ in range(workers)]
    addresses = [f"localhost:{server.getsockname()[1]}" for server in servers]
    for server in servers:
        server.close()
    overrides = {"train_config.num_steps": steps, "train_config.batch_size": batch}
    cores = sorted(os.sched_getaffinity(0))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        paths = {
            "examples": folder / "examples",
            "pipeline_config": folder / "config",
            "work_dir": Path(work),
        }
        paths |= {name: Path(work) / name for name in ("model", "model_run")}
        command = [sys.executable, "-m", "components.trainer", f"--overrides={json.dumps(overrides)}"]
        command += [f"--{name}={path}" for name, path in paths.items()]
        running = []
        for place in range(workers):
            environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
            if workers > 1:
                task = {"type": "worker", "index": place}
                environment["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": task})
            with Path(work, f"log-{place}").open("wb") as log:
                pinned = ["taskset", "--cpu-list", str(cores[place % len(cores)]), *command]
                running.append(subprocess.Popen(pinned, cwd=ROOT, env=environment, stdout=log, stderr=log))
        codes = [process.wait() for process in running]
        said = Path(work, "log-0").read_text(errors="replace")[-2000:]
    assert not any(codes), f"{workers} workers ended with {codes}: {said}"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--batch", type=int, default=8, help="of all workers together")
    parser.add_argument("--steps", type=int, nargs=2, default=[10, 30], help="a short and a long training")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--size", type=int, default=320)
    add_keep(parser)
    arguments = parser.parse_args()
    few, many = arguments.steps
    found: dict[int, list[float]] = {workers: [] for workers in arguments.workers}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_examples(folder / "examples", arguments.size)
        (folder / "config").mkdir()
        (folder / "config" / "pipeline.config").write_text(CONFIG.read_text() + _TRAINING)
        for turn in range(arguments.turns):
            for workers, costs in found.items():
                spent = [cpu_seconds(folder, workers, steps, arguments.batch) for steps in (few, many)]
                costs.append((spent[1] - spent[0]) / (many - few))
                print(f"turn {turn + 1}, {workers} workers: {costs[-1]:.2f} CPU s a step", file=sys.stderr)
    first = arguments.workers[0]
    rows = []
    for workers, costs in found.items():
        ratio = statistics.median(mine / one for mine, one in zip(costs, found[first], strict=True))
        rows.append(
            {
                "workers": workers,
                "CPU s a step": round(statistics.median(costs), 2),
                f"times that of {first}": round(ratio, 2),
                "of it communication and the like": f"{100 * (1 - 1 / ratio):.0f} %",
            }
        )
    print(json.dumps(rows, indent=1))
    keep(arguments.keep, rows)


if __name__ == "__main__":
    main()
