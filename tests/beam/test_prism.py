"""The steps on Prism: job service and workers are processes, as with Flink and Dataflow."""

import contextlib
import functools
import os
import signal
import threading
import time
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from components.example_gen import run as example_gen
from components.example_gen import shards as example_shards
from tests.support import beam_programs
from tests.support.beam_programs import calibrated, evaluated, ingested, listening, shards, validated
from tests.support.dataset_files import Coco
from tests.support.local_server import free_port

PRISM = os.environ.get("DETFLOW_PRISM", "")
pytestmark = [pytest.mark.beam, pytest.mark.skipif(not PRISM, reason="make test-beam runs it")]

WAIT_SECONDS = 90


@pytest.fixture
def job_service(tmp_path):
    port = free_port()
    with listening([PRISM, f"--job_port={port}", "--serve_http=false"], port, tmp_path / "prism.log"):
        yield ("--runner=PortableRunner", f"--job_endpoint=localhost:{port}")


@pytest.fixture
def worker_pool(tmp_path):
    with beam_programs.worker_pool(tmp_path / "pool.log") as pool:
        yield pool


def test_all_kinds_of_workers_write_the_same_bytes(tmp_path, job_service, worker_pool):
    Coco(tmp_path / "data", images=40).write("train.json")
    data = tmp_path / "data"
    here = shards(data, tmp_path / "here")
    assert len(here) == 10
    assert shards(data, tmp_path / "loop", *job_service, "--environment_type=LOOPBACK") == here
    _, external = worker_pool
    assert shards(data, tmp_path / "pool", *job_service, *external) == here
    assert "Starting worker" in (tmp_path / "pool.log").read_text()


def test_a_pool_reads_annotations_and_evaluates_as_one_process(tmp_path, job_service, worker_pool):
    pool = (*job_service, *worker_pool[1])
    here = ingested(tmp_path / "data", tmp_path / "here")
    assert ingested(tmp_path / "data", tmp_path / "pool", *pool) == here
    assert evaluated(tmp_path / "evaluated", *pool) == evaluated(tmp_path / "alone")


def test_a_pool_validates_and_calibrates_as_one_process(tmp_path, job_service, worker_pool):
    pool = (*job_service, *worker_pool[1])
    assert validated(tmp_path / "pool", *pool) == validated(tmp_path / "here")
    assert calibrated(tmp_path / "ranges_pool", *pool) == calibrated(tmp_path / "ranges")


def test_a_run_after_a_killed_one_gives_the_same_bytes(tmp_path, monkeypatch, job_service, worker_pool):
    pool, external = worker_pool
    Coco(tmp_path / "data", images=1000).write("train.json")
    here = shards(tmp_path / "data", tmp_path / "here")
    assert len(here) == 250
    for workers in (1, 2):
        if workers == 2:
            monkeypatch.setattr(example_gen.shards, "write_shards", _write_in_two_environments)
        made, killed = tmp_path / f"made-{workers}", []
        kill = functools.partial(_kill_a_worker, pool.pid, made, workers)
        killer = threading.Thread(target=lambda kill=kill, killed=killed: killed.append(kill()))
        killer.start()
        # Prism gives a job one worker and does not start another; Flink's restart strategy would.
        # A worker that had not connected yet is missed only after a minute.
        with pytest.raises(RuntimeError, match=r"SDK worker disconnected|get control connection"):
            shards(tmp_path / "data", made / "examples", *job_service, *external)
        killer.join()
        assert killed == [True] and not (made / "examples").exists()
        assert shards(tmp_path / "data", made / "examples", *job_service, *external) == here


def _write_in_two_environments(tasks, beam_args):
    """Write half of the shards in a worker each, beside the one that Prism starts for the common environment.

    Prism 2.77 starts one worker for each environment of a job (`wks[envID]` in prism/internal/execute.go) and
    reads no --sdk_worker_parallelism; different resource hints make separate environments. When the
    control stream of one ends, it fails all that was given to it (`SDK worker disconnected` in
    prism/internal/worker/worker.go), and with it the job.
    """
    with beam.Pipeline(options=PipelineOptions(flags=list(beam_args))) as pipeline:
        for number, memory in enumerate(("1GB", "2GB")):
            paths = [os.fsencode(path) for path in list(tasks)[number::2]]
            shards = pipeline | f"Shards {number}" >> beam.Create(paths).with_resource_hints(min_ram=memory)
            write = beam.Map(example_shards._write_shard).with_resource_hints(min_ram=memory)
            _ = shards | f"Write {number}" >> write


def _kill_a_worker(parent, folder, workers):
    """Kill one of `workers` once some shards are done; return whether that many had started."""
    deadline = time.monotonic() + WAIT_SECONDS
    # The worker of the common environment may have nothing more to do, and its end then no effect.
    named = b"resource_hints" if workers == 2 else b""
    while time.monotonic() < deadline:
        found = sorted(_workers(parent, named))
        if len(found) >= workers and len(list(folder.rglob("*.report.json"))) >= 3:
            os.kill(found[0], signal.SIGKILL)
            return True
        time.sleep(0.005)
    return False


def _workers(parent, named):
    """Yield the processes below one that run a worker of this name, but not the shells that start them."""
    for child in _children(parent):
        with contextlib.suppress(OSError):
            program, *arguments = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            if b"python" in program and any(b"sdk_worker" in a and named in a for a in arguments):
                yield child
        yield from _workers(child, named)


def _children(parent):
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(status.read_text().rsplit(")", 1)[1].split()[1]) == parent:
                yield int(status.parent.name)
