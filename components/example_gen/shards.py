"""A shard: the list of its records, which is one piece of work, and its TFRecord file and report."""

from __future__ import annotations

import contextlib
import gzip
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from components.example_gen.checks import make_example
from components.example_gen.records import ImageRecord, ObjectRecord, Rejected, Rejection
from components.example_gen.tally import Tally
from detection_core import files
from detection_core.data.record_writer import write_record
from detection_core.errors import ConfigError

WORK = ".work"
"""Folder beside the splits for the shards' lists and reports; gone when all is done."""

SUFFIXES = {"": "", "GZIP": ".gz"}


def write_tasks(
    folder: str, split: str, records: Sequence[ImageRecord], shard_examples: int, settings: Mapping[str, Any]
) -> dict[str, int]:
    """Divide a split's records into shards, and write the list of each.

    The lists go through files because a runner's job description may hold little more than their names.

    Args:
        folder: of the examples.
        split: its name.
        records: in the order in which they are to be stored.
        shard_examples: about how many go in a shard.
        settings: see `shard_settings`.

    Returns:
        The paths of the lists, each a task for `write_shard`, with the number of records.
    """
    count = max(1, math.ceil(len(records) / shard_examples))
    tasks = {}
    for index in range(count):
        part = records[index * len(records) // count : (index + 1) * len(records) // count]
        path = files.join(folder, WORK, f"{split}-{index:05d}.task.json")
        task = {"folder": folder, "split": split, "index": index, "count": count, "records": part}
        files.write_text(path, json.dumps({**settings, **task}))
        tasks[path] = len(part)
    return tasks


def shard_settings(label_ids: Mapping[str, int], compression: str) -> dict[str, Any]:
    """Return what all shards have in common.

    Raises:
        ConfigError: for an unknown compression.
    """
    if compression not in SUFFIXES:
        raise ConfigError(f"expected one of {list(SUFFIXES)}, found {compression!r}", where="compression")
    return {"label_ids": dict(label_ids), "compression": compression}


def write_shard(task_path: str) -> int:
    """Write one shard and its report. Doing it twice, even at once, gives the same files.

    Args:
        task_path: one of the paths from `write_tasks`.

    Returns:
        How many examples it holds.
    """
    task = json.loads(files.read_bytes(task_path))
    name = f"examples-{task['index']:05d}-of-{task['count']:05d}.tfrecord{SUFFIXES[task['compression']]}"
    tally, rejected = Tally(), []
    with _open_shard(files.join(task["folder"], f"Split-{task['split']}", name), task["compression"]) as out:
        for fields in task["records"]:
            record = ImageRecord._make([*fields[:5], _objects(fields[5])])
            try:
                example = make_example(record, task["label_ids"])
            except Rejected as e:
                rejected.append(Rejection(record.filename, record.source_id, e.reason, e.detail))
                continue
            write_record(out, example.data)
            tally.add(example)
    report = {"tally": tally.state(), "rejected": rejected, "split": task["split"]}
    files.write_text(task_path.replace(".task.json", ".report.json"), json.dumps(report))
    return tally.counts["total"]["images"]


def _objects(rows: list[list[Any]]) -> list[ObjectRecord]:
    return [ObjectRecord(name, tuple(box), *rest) for name, box, *rest in rows]


@contextlib.contextmanager
def _open_shard(path: str, compression: str) -> Iterator[IO[bytes] | gzip.GzipFile]:
    with files.atomic_file(path) as raw:
        if compression:
            # A higher level costs much and gains nothing: the images are compressed already.
            with gzip.GzipFile("", "wb", compresslevel=1, fileobj=raw, mtime=0) as packed:
                yield packed
        else:
            yield raw


def read_reports(folder: str) -> list[dict[str, Any]]:
    """Return the shards' reports, by split and index."""
    paths = files.glob(files.join(folder, WORK, "*.report.json"))
    return [json.loads(files.read_bytes(path)) for path in paths]
