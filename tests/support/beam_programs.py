"""Programs that Beam runs its workers in, and results of the steps on Beam by whatever runner."""

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from component_specs import EvaluatorJob, ExampleGenJob, QuantizationRewriterJob
from components.example_gen import run as example_gen
from tests.support.dataset_files import write_voc
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


def evaluated(folder: Path, *beam_args: str) -> dict[str, Any]:
    """Evaluate eleven images in five files; return files and metrics, without times and memory."""
    from components.evaluator.run import run as evaluate
    from detection_core.artifacts.evaluation import MAP
    from tests.support import blobs

    blobs.write_examples(folder / "examples", "test", blobs.scenes(11), shard_ends=(1, 5, 5, 9))
    paths = {name: str(folder / "out" / name) for name in ("evaluation", "blessing")}
    evaluate(
        EvaluatorJob(
            examples=str(folder / "examples"),
            model=blobs.save_folder(blobs.BlobDetector(shift=0.01), folder / "model"),
            split="test",
            pictures=2,
            write_detections=True,
            thresholds={MAP: {"lower_bound": 0.5}},
            distributed=bool(beam_args),
            beam_args=beam_args,
            **paths,
        )
    )
    written = sorted(path for path in (folder / "out").rglob("*") if path.is_file())
    files: dict[str, Any] = {path.name: path.read_bytes() for path in written}
    files["metrics.json"] = json.loads(files["metrics.json"])
    for name in ("seconds_per_image", "peak_memory_bytes"):
        assert files["metrics.json"].pop(name) > 0
    return files


def ingested(data: Path, folder: Path, *beam_args: str) -> dict[str, bytes]:
    """Ingest 210 images in Pascal VOC, one of them damaged; return all that ExampleGen writes, by path."""
    if not data.exists():
        names = [f"{number:03d}" for number in range(210)]
        write_voc(data, names, **{"007": "<annotation><object>"})
    shards(data, folder, *beam_args, splits={"train": 0.5, "eval": 0.5}, shard_examples=40)
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def validated(folder: Path, *beam_args: str) -> dict[str, bytes]:
    """Validate 65 images of two splits in twelve files; return all that DataValidator writes, by path."""
    from components.data_validator.run import run
    from tests.components.data_validator.jobs import job_of
    from tests.support.made_examples import Made, some_images

    images = some_images(60, seed=3)
    job = job_of(folder, {"train": [*images, Made(data=b"no image")], "eval": images[:4]}, shards=6)
    run(dataclasses.replace(job, distributed=bool(beam_args), beam_args=beam_args))
    outputs = ("statistics", "schema", "anomalies", "blessing")
    paths = sorted(path for name in outputs for path in (folder / name).rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def calibrated(folder: Path, *beam_args: str) -> dict[int, bytes]:
    """Return the ranges of a network's tensors in each of three batches, from QuantizationRewriter."""
    from components.quantization_rewriter.calibration import gather_on_beam
    from components.quantization_rewriter.run import read_config
    from detection_core.storage import files
    from detection_core.tasks.quantize import load_calibration
    from tests.support.detectors import REWRITER, family_config, trained
    from tests.support.tiny_training import write_examples

    write_examples(folder / "examples", images=24)
    files.write_text(str(folder / "config" / "pipeline.config"), family_config("ssd") + REWRITER)
    outputs = ("quantized_model", "quantized_run", "quantization", "work_dir")
    job = QuantizationRewriterJob(
        model=str(trained("ssd") / "model"),
        examples=str(folder / "examples"),
        pipeline_config=str(folder / "config"),
        representative_examples=24,
        beam_args=beam_args,
        **{name: str(folder / name) for name in outputs},
    )
    if beam_args:
        ranges = gather_on_beam(job, [range(1), range(1, 3)])
    else:
        ranges = load_calibration(read_config(job), job.model)(range(3))
    return {batch: ranges[batch].tobytes() for batch in sorted(ranges)}
