"""ExampleGen as it runs on large data sets: Beam's own runner with a worker process a core."""

import os
import signal
import threading
import time

import pytest

from component_specs import ExampleGenJob
from components.example_gen.local_workers import _workers
from components.example_gen.run import run
from tests.support.dataset_files import Coco

pytestmark = pytest.mark.beam

TWO = ("--runner=FnApiRunner", "--direct_running_mode=multi_processing", "--direct_num_workers=2")


def _shards(data, folder, beam_args=()):
    given = {"data_path": str(data), "splits": {"train": "train.json"}, "shard_examples": 4}
    run(ExampleGenJob(examples=str(folder), beam_args=beam_args, **given))
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*.tfrecord"))}


def test_one_of_two_workers_that_is_killed_ends_the_run_and_the_next_gives_the_same_bytes(tmp_path):
    Coco(tmp_path / "data", images=200).write("train.json")
    made, killed = tmp_path / "made", []

    def kill():
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not killed:
            if len(list(made.rglob("*.report.json"))) >= 3:
                killed.append(next(_workers(os.getpid())))
                os.kill(killed[0], signal.SIGKILL)
            time.sleep(0.005)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(RuntimeError, match="one has died"):
        _shards(tmp_path / "data", made / "examples", TWO)
    killer.join()
    assert len(killed) == 1 and not list(made.iterdir()) and not list(_workers(os.getpid()))
    assert _shards(tmp_path / "data", made / "examples", TWO) == _shards(tmp_path / "data", tmp_path / "here")
