"""ExampleGen through Beam's portable interface, its Python in a worker pool: how it runs on Flink."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from component_specs import ExampleGenJob
from components.example_gen.run import run
from tests.support.dataset_files import Coco


@pytest.fixture
def pool(tmp_path):
    """The command of k8s/addons/beam-flink/taskmanager.yaml; the pool starts `python` from PATH."""
    with socket.create_server(("localhost", 0)) as s:
        port = s.getsockname()[1]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    log = (tmp_path / "pool.log").open("w+")
    command = [sys.executable, "-m", "apache_beam.runners.worker.worker_pool_main", f"--service_port={port}"]
    process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + 300
    while True:
        try:
            socket.create_connection(("localhost", port), timeout=1).close()
            break
        except OSError:
            assert process.poll() is None and time.monotonic() < deadline, Path(log.name).read_text()
            time.sleep(0.1)
    yield port, Path(log.name)
    process.terminate()
    process.wait(10)


def test_a_worker_pool_writes_the_same_bytes(tmp_path, pool):
    port, log = pool
    Coco(tmp_path / "data", images=9).write("train.json")

    given = {"data_path": str(tmp_path / "data"), "splits": {"train": "train.json"}, "shard_examples": 4}

    def shards(name, *beam_args):
        run(ExampleGenJob(examples=str(tmp_path / name), **given, beam_args=beam_args))
        return {p.name: p.read_bytes() for p in (tmp_path / name).rglob("*.tfrecord")}

    external = ("--environment_type=EXTERNAL", f"--environment_config=localhost:{port}")
    made = shards("pool", "--runner=PortableRunner", "--job_endpoint=embed", *external)
    assert len(made) == 3 and made == shards("here")
    assert "Starting worker" in log.read_text()
