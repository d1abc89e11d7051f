"""Calibration on Beam's workers gives the ranges that one process gives."""

import dataclasses
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from component_specs import QuantizationRewriterJob
from components.quantization_rewriter.calibration import gather_on_beam
from components.quantization_rewriter.run import read_config, run
from components.runtime.beam_pipeline import IN_PROCESS, in_processes
from detection_core.data.record_format import write_record
from detection_core.data.records import read_records
from detection_core.errors import DataError
from detection_core.exporters.detector_folder import load_detector
from detection_core.storage import files
from detection_core.tasks.quantize import load_calibration
from tests.support.beam_programs import worker_pool
from tests.support.detectors import REWRITER, family_config, untrained
from tests.support.plain_backbone import known_to_processes
from tests.support.record_files import write_records
from tests.support.tiny_training import write_examples

OUTPUTS = ("quantized_model", "quantized_run", "quantization")
SHARDS = (0, 3, 20, 20, 41, 60)
"""Ends of files of records; batches of eight go over them, and one file is empty."""


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """A step with 60 images in five files, of which 52 calibrate."""
    root = tmp_path_factory.mktemp("job")
    (shard,) = (write_examples(root / "examples", images=60) / "Split-train").iterdir()
    records = list(read_records(str(shard)).as_numpy_iterator())
    shard.unlink()
    for number, (first, last) in enumerate(itertools.pairwise(SHARDS)):
        write_records(shard.with_name(f"examples-{number:05d}-of-00005.tfrecord"), records[first:last])
    config = family_config("plain", 1) + REWRITER.replace("delay: 1", "delay: 0")
    files.write_text(str(root / "config" / "pipeline.config"), config)
    places = {name: str(root / name) for name in (*OUTPUTS, "examples")}
    return QuantizationRewriterJob(
        model=untrained(),
        pipeline_config=str(root / "config"),
        work_dir=str(root / "work"),
        representative_examples=52,
        beam_args=tuple(IN_PROCESS),
        **places,
    )


def assert_equal(found, expected):
    assert found.keys() == expected.keys()
    for number, extremes in expected.items():
        np.testing.assert_array_equal(found[number], extremes, str(number))


def test_workers_measure_what_one_process_measures_however_batches_are_divided(job):
    here = load_calibration(read_config(job), job.model)(range(13))
    assert list(here) == list(range(8))  # there are no more images
    assert len(np.unique(np.stack(list(here.values())), axis=0)) == 8
    parts = [range(*pair) for pair in itertools.pairwise((0, 1, 2, 5, 8, 13))]
    assert_equal(gather_on_beam(job, parts[::-1]), here)
    assert not list(Path(job.quantization).parent.glob("*.parts"))


def test_the_step_asks_for_as_many_images_as_the_setting_says(job, tmp_path, monkeypatch):
    class Asked(Exception):
        pass

    def gather(job, parts):
        raise Asked(sum(map(len, parts)))

    monkeypatch.setattr("components.quantization_rewriter.calibration.gather_on_beam", gather)
    for images, batches in ((8, 1), (52, 7)):
        with pytest.raises(Asked, match=f"^{batches}$"):
            quantized(job, tmp_path / str(images), distributed=True, representative_examples=images)


def quantized(job, folder, **changes):
    """Run the step; return its properties, record, ranges and weights."""
    places = {name: str(folder / name) for name in (*OUTPUTS, "work_dir")}
    properties = run(dataclasses.replace(job, **places, **changes))
    record = json.loads((folder / "quantization" / "quantization.json").read_text())
    model = load_detector(str(folder / "quantized_model")).model
    del properties["seconds"]
    return properties, record, [variable.numpy().tobytes() for variable in model.variables]


@pytest.mark.slow
def test_the_step_writes_the_same_detector_in_this_process_and_in_two(job, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", known_to_processes(tmp_path / "installed"))
    here = quantized(job, tmp_path / "here")
    assert sum("range" in layer for layer in here[1]["quantized"]) > 20
    two = quantized(job, tmp_path / "two", distributed=True, beam_args=tuple(in_processes(2)))
    assert two == here


@pytest.mark.slow
def test_so_do_workers_of_a_pool_behind_the_portable_interface(job, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", known_to_processes(tmp_path / "installed"))
    here = load_calibration(read_config(job), job.model)(range(7))
    with worker_pool(tmp_path / "pool.log") as (_, external):
        portable = ("--runner=PortableRunner", "--job_endpoint=embed", *external)
        pool = dataclasses.replace(job, beam_args=portable)
        assert_equal(gather_on_beam(pool, [range(3), range(3, 7)]), here)


@pytest.mark.slow
def test_a_damaged_record_is_named_as_in_one_process_and_nothing_is_left(job, tmp_path):
    examples = write_examples(tmp_path / "examples", images=20)
    (shard,) = (examples / "Split-train").iterdir()
    with open(shard, "ab") as file:
        write_record(file, b"\xff\xff no example")
    job = dataclasses.replace(
        job,
        examples=str(examples),
        work_dir=str(tmp_path / "work"),
        **{name: str(tmp_path / name) for name in OUTPUTS},
    )
    messages = set()
    for distributed in (False, True):
        with pytest.raises(DataError, match=r"record 20: expected a tf\.Example") as raised:
            run(dataclasses.replace(job, distributed=distributed))
        messages.add(str(raised.value))
    assert len(messages) == 1
    assert not list(tmp_path.glob("*.parts")) and not any((tmp_path / name).exists() for name in OUTPUTS)
