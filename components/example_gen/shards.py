"""A shard: its list of images, which is one unit of work, its TFRecord file and its report."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, cast

import google_crc32c

from components.example_gen.image_index import IndexedImages, parse_json, read_record
from detection_core.artifacts.shard_manifest import write_manifest
from detection_core.data.record_format import write_record
from detection_core.datasets.annotated_images import Rejected, Rejection
from detection_core.datasets.annotation_frame import SHOWN
from detection_core.datasets.classes import make_layout
from detection_core.datasets.counts import Counts
from detection_core.datasets.encoding import DECODINGS, make_example
from detection_core.storage import files
from detection_core.storage.shard_cache import Shard

WORK = ".work"
"""Temporary folder, next to the splits, for the shards' lists and reports."""

REPORT = ".report.json"
"""Suffix of a shard's report, which appears after the shard is written."""
SUFFIXES = {"": "", "GZIP": ".gz"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardSettings:
    """The settings that all shards share.

    Attributes:
        label_ids: class name to id.
        compression: of the files, a key of `SUFFIXES`.
        shards: folder for the shards; "" for the examples folder.
        decode: how many images are decoded, a key of `encoding.DECODINGS`.
        keypoint_names: class name to the names of its keypoints.
        exif_annotations: `upright` or `stored`; see `annotation_frame.find_annotation_frame`.
    """

    label_ids: Mapping[str, int]
    compression: str = ""
    shards: str = ""
    decode: str = "sample"
    keypoint_names: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    exif_annotations: str = SHOWN


def write_tasks(
    folder: str, split: str, images: IndexedImages, shard_examples: int, settings: ShardSettings
) -> dict[str, int]:
    """Divide a split's images into shards, and write the list of each.

    The lists are written to files because the size of a runner's job description is limited. The images are
    in storage order. `shard_examples` is approximate.

    Returns:
        Path of each list, which is a task for `write_shard`, to its number of records.
    """
    total, texts, shared = len(images), images.texts(), dataclasses.asdict(settings)
    count = max(1, math.ceil(total / shard_examples))
    tasks = {}
    for index in range(count):
        begin, end = (edge * total // count for edge in (index, index + 1))
        path = files.join(folder, WORK, f"{split}-{index:05d}.task.json")
        shard = {"folder": folder, "split": split, "index": index, "count": count}
        decoded = DECODINGS[settings.decode].images_in(begin, end, total)
        head = json.dumps({**shared, **shard, "decoded": decoded})
        files.write_text(path, "\n".join([head, *itertools.islice(texts, end - begin)]))
        tasks[path] = end - begin
    return tasks


def write_shard(task_path: str) -> int:
    """Write the shard of a `write_tasks` path and its report.

    Repeated or concurrent calls write the same files.

    Returns:
        The number of examples.
    """
    # Parse line by line: the garbage collector would traverse millions of parsed boxes every time.
    head, *records = files.read_bytes(task_path).split(b"\n")
    task = parse_json(head)
    folder = task["shards"] or task["folder"]
    name = f"examples-{task['index']:05d}-of-{task['count']:05d}.tfrecord{SUFFIXES[task['compression']]}"
    counts, rejected, decoding = Counts(), [], DECODINGS[task["decode"]]
    keypoints = make_layout(task["keypoint_names"])
    path = files.join(folder, f"Split-{task['split']}", name)
    with _open_shard(path, task["compression"]) as (out, measured):
        for number, text in enumerate(records):
            record = read_record(parse_json(text))
            # Images are ordered by hash, so the first ones are a random sample.
            check_pixels = decoding.check if number < task["decoded"] else None
            try:
                example = make_example(
                    record, task["label_ids"], check_pixels, keypoints, task["exif_annotations"]
                )
            except Rejected as e:
                rejected.append(Rejection(record.filename, record.source_id, e.reason, e.detail))
                continue
            write_record(out, example.data)
            counts.add(example)
    examples = counts.counts["total"]["images"]
    shard = Shard(uri=path, size=measured.size, crc32c=measured.crc32c, examples=examples)
    report = {
        "counts": counts.state(),
        "rejected": rejected,
        "split": task["split"],
        "shard": dataclasses.asdict(shard),
    }
    files.write_text(task_path.replace(".task.json", REPORT), json.dumps(report))
    return examples


class _Measured:
    """Forwards bytes to a file and tracks their number and checksum."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._checksum = 0
        self.size = 0

    def write(self, data: bytes) -> int:
        self.size += len(data)
        self._checksum = google_crc32c.extend(self._checksum, data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    @property
    def crc32c(self) -> str:
        """CRC-32C of the written bytes, eight hexadecimal digits."""
        return f"{self._checksum:08x}"


@contextlib.contextmanager
def _open_shard(path: str, compression: str) -> Iterator[tuple[IO[bytes] | gzip.GzipFile, _Measured]]:
    with files.atomic_file(path) as file:
        measured = _Measured(file)
        raw = cast(IO[bytes], measured)
        if compression:
            # A higher level costs time and gains nothing: the images are already compressed.
            with gzip.GzipFile("", "wb", compresslevel=1, fileobj=raw, mtime=0) as packed:
                yield packed, measured
        else:
            yield raw, measured


def read_reports(folder: str) -> Iterator[dict[str, Any]]:
    """Yield the shards' reports, by split and index."""
    for path in files.list_matching(files.join(folder, WORK), f"*{REPORT}"):
        yield json.loads(files.read_bytes(path))


def write_manifests(folder: str, reports: Iterable[Mapping[str, Any]]) -> None:
    """Write a manifest of the shards outside the artifact, from the output of `read_reports`."""
    shards: dict[str, list[Shard]] = {}
    for report in reports:
        shards.setdefault(report["split"], []).append(Shard(**report["shard"]))
    for split, listed in shards.items():
        write_manifest(files.join(folder, f"Split-{split}"), listed)
