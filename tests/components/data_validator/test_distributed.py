"""A validation on Beam's workers gives the files that one process gives."""

import dataclasses
from pathlib import Path

import pytest

from components.data_validator.run import run
from components.runtime.beam_pipeline import IN_PROCESS, in_processes
from detection_core.artifacts.data_findings import FINDINGS
from detection_core.artifacts.dataset_card import CARD, DatasetCard
from detection_core.data.record_format import write_record
from detection_core.errors import DataError
from tests.components.data_validator.jobs import job_of
from tests.support.made_examples import Made, some_images

OUTPUTS = ("statistics", "schema", "anomalies", "blessing")


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """Eleven files of two splits and two spans, with faults of every kind, and one empty file."""
    images = some_images(60, seed=3)
    splits = {"train": [*images, Made(data=b"no image")], "eval": images[:4]}
    job = job_of(tmp_path_factory.mktemp("job"), splits, shards=6, decode_images="all")
    CARD.write(job.examples, DatasetCard(spans={"train": ["1", "2"]}))
    return job


def validated(job, folder, **changes):
    """Run the step; return its properties, and the files by path."""
    run_job = dataclasses.replace(job, **{name: str(folder / name) for name in OUTPUTS}, **changes)
    properties = run(run_job)
    return properties, {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def in_one_process(job, tmp_path_factory):
    return validated(job, tmp_path_factory.mktemp("here"))


def test_workers_write_what_one_process_writes(job, in_one_process, tmp_path):
    properties, files = in_one_process
    assert properties["images"] == 65 and properties["findings"] >= 5
    written = FINDINGS.name, "box_statistics.json", "index.html", "Split-eval/SchemaDiff.pb", "index.jsonl"
    assert all(any(path.endswith(name) for path in files) for name in written)
    there = validated(job, tmp_path, distributed=True, beam_args=tuple(IN_PROCESS))
    assert there == in_one_process


@pytest.mark.slow
def test_so_do_two_processes(job, in_one_process, tmp_path):
    properties, files = validated(job, tmp_path, distributed=True, beam_args=tuple(in_processes(2)))
    assert properties == in_one_process[0] and files.keys() == in_one_process[1].keys()
    assert [name for name, data in files.items() if data != in_one_process[1][name]] == []


def test_the_first_damaged_record_is_named_as_in_one_process_and_nothing_is_left(job, tmp_path):
    for split in ("eval", "train"):
        path = sorted((Path(job.examples) / f"Split-{split}").iterdir())[4]
        with open(path, "ab") as file:
            write_record(file, b"\xff\xff not an example")
        (Path(job.examples) / CARD.name).unlink(missing_ok=True)
        messages = set()
        for name, changes in {"here": {}, "there": {"beam_args": tuple(IN_PROCESS)}}.items():
            with pytest.raises(DataError, match="no tf") as raised:
                validated(job, tmp_path / name, distributed=bool(changes), **changes)
            messages.add(str(raised.value))
            assert not list(tmp_path.rglob("*.parts"))
        [message] = messages
        # Record 50 of `train` is read before those of `eval`.
        assert ("record 50" if split == "train" else "record 3") in message
