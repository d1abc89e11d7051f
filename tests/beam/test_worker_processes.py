"""ExampleGen as it runs on large data sets: Beam's own runner with a worker process a core."""

import os
import signal
import threading
import time

import pytest

from components.runtime.beam_pipeline import _workers
from tests.support.beam_programs import ingested, shards
from tests.support.dataset_files import Coco

pytestmark = pytest.mark.beam

TWO = ("--runner=FnApiRunner", "--direct_running_mode=multi_processing", "--direct_num_workers=2")


def test_one_of_two_workers_that_is_killed_ends_the_run_and_the_next_gives_the_same_bytes(tmp_path):
    Coco(tmp_path / "data", images=1000).write("train.json")
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
        shards(tmp_path / "data", made / "examples", *TWO)
    killer.join()
    assert len(killed) == 1 and not list(made.iterdir()) and not list(_workers(os.getpid()))
    assert shards(tmp_path / "data", made / "examples", *TWO) == shards(tmp_path / "data", tmp_path / "here")


def test_annotations_in_many_files_are_read_by_two_workers_as_by_one_process(tmp_path, caplog):
    here = ingested(tmp_path / "data", tmp_path / "here")
    assert b"007.xml" in here["quarantine.jsonl"]
    with caplog.at_level("INFO"):
        assert ingested(tmp_path / "data", tmp_path / "two", *TWO) == here
    assert "210 annotation files in 210 lists" in caplog.text
