"""The end of a pipeline on worker processes: results, errors and a worker's death."""

import signal
import subprocess
import sys
import threading
import time

from components.runtime.beam_pipeline import run_with_workers
from tests.support.cases import refused


def test_what_the_pipeline_raises_is_raised_and_its_end_is_waited_for():
    done = []
    run_with_workers(lambda: done.append(time.sleep(0.05)))
    assert done == [None]
    refused(KeyError, "reason", run_with_workers, lambda: {}["reason"])


def test_a_dead_worker_ends_the_wait_and_the_others_and_hooks_are_as_before():
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "sdk_worker_main"])

    def dies():
        raise RuntimeError("exited with return code 137")

    def waits_for_ever():
        threading.Thread(target=dies, name="run_worker").start()
        threading.Event().wait(60)

    before = threading.excepthook
    refused(RuntimeError, r"one has died \(exited with return code 137\)", run_with_workers, waits_for_ever)
    assert other.wait(10) == -signal.SIGKILL and threading.excepthook is before
