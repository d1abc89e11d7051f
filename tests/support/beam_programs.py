"""Programs that Beam runs its workers in, and ExampleGen's shards by whatever runner."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from component_specs import ExampleGenJob
from components.example_gen import run as example_gen
from tests.support.local_server import free_port, wait_for_port


@contextlib.contextmanager
def listening(command: list[str], port: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program as soon as it listens; it starts `python` from PATH."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with log.open("w") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=subprocess.STDOUT)

    def running() -> None:
        assert process.poll() is None, log.read_text()

    try:
        wait_for_port(port, running, seconds=300)
        yield process
    finally:
        process.terminate()
        process.wait(20)


@contextlib.contextmanager
def worker_pool(log: Path) -> Iterator[tuple[subprocess.Popen[bytes], tuple[str, ...]]]:
    """Run the worker pool of k8s/addons/beam-flink/taskmanager.yaml; return Beam's options for it."""
    port, module = free_port(), "apache_beam.runners.worker.worker_pool_main"
    with listening([sys.executable, "-m", module, f"--service_port={port}"], port, log) as pool:
        yield pool, ("--environment_type=EXTERNAL", f"--environment_config=localhost:{port}")


def shards(data: Path, folder: Path, *beam_args: str, **changes: Any) -> dict[str, bytes]:
    """Ingest `train.json` in shards of four examples, unless changed; return them by path."""
    given = {"data_path": str(data), "splits": {"train": "train.json"}, "shard_examples": 4, **changes}
    example_gen.run(ExampleGenJob(examples=str(folder), beam_args=beam_args, **given))
    paths = sorted(folder.rglob("*.tfrecord"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}
