"""Shards: their lists of images, which are units of work, TFRecord files, reports, and Beam's pipeline."""

import contextlib
import dataclasses
import gzip
import itertools
import json
import logging
import marshal
import math
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, cast

import google_crc32c

from component_specs.example_gen import TRAIN
from components.example_gen.image_index import IndexedImages, read_record
from components.runtime.beam_pipeline import IN_PROCESS, in_processes, run_pipeline
from detection_core.artifacts.shard_manifest import write_manifest
from detection_core.data.record_format import write_record
from detection_core.datasets.annotated_images import Rejected, Rejection
from detection_core.datasets.classes import make_layout
from detection_core.datasets.counts import Counts
from detection_core.datasets.encoding import DECODINGS, make_example
from detection_core.datasets.shapes import SHOWN
from detection_core.datasets.tile_cutting import tile_examples
from detection_core.errors import DataError
from detection_core.ops.tile_options import tile_options
from detection_core.progress import Progress
from detection_core.storage import files
from detection_core.storage.shard_cache import Shard

WORK = ".work"
"""Temporary folder, next to the splits, for the shards' lists and reports."""

REPORT = ".report.json"
"""Suffix of a shard's report, which appears after the shard is written."""
_TASK = ".task"
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
        exif_annotations: `upright` or `stored`; see `shapes.find_annotation_frame`.
        tiles: fields of `tile_options.TileOptions` to cut training images by; empty: whole images only.
    """

    label_ids: Mapping[str, int]
    compression: str = ""
    shards: str = ""
    decode: str = "sample"
    keypoint_names: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    exif_annotations: str = SHOWN
    tiles: Mapping[str, float] = dataclasses.field(default_factory=dict)


def write_tasks(
    folder: str, split: str, images: IndexedImages, shard_examples: int, settings: ShardSettings
) -> dict[str, int]:
    """Divide a split's images into shards; return each list's path, a task for `write_shard`, to its length.

    The lists are written to files because the size of a runner's job description is limited. The images are
    in storage order. `shard_examples` is approximate.
    """
    total, packed, shared = len(images), images.packed(), dataclasses.asdict(settings)
    count = max(1, math.ceil(total / shard_examples))
    tasks = {}
    for index in range(count):
        begin, end = (edge * total // count for edge in (index, index + 1))
        path = files.join(folder, WORK, f"{split}-{index:05d}{_TASK}")
        shard = {"folder": folder, "split": split, "index": index, "count": count}
        decoded = DECODINGS[settings.decode].images_in(begin, end, total)
        own = {"decoded": decoded, "images": list(itertools.islice(packed, end - begin))}
        files.write_bytes(path, marshal.dumps({**shared, **shard, **own}))
        tasks[path] = end - begin
    return tasks


def write_shard(task_path: str) -> int:
    """Write the shard of a `write_tasks` path and its report; return the number of examples.

    Repeated or concurrent calls write the same files.
    """
    # Each image is packed separately: the garbage collector would traverse millions of boxes every time.
    task = marshal.loads(files.read_bytes(task_path))
    name = f"examples-{task['index']:05d}-of-{task['count']:05d}.tfrecord{SUFFIXES[task['compression']]}"
    counts, rejected, decoding = Counts(), [], DECODINGS[task["decode"]]
    keypoints = make_layout(task["keypoint_names"])
    tiles = tile_options(task["tiles"]) if task["split"] == TRAIN else None
    path = files.join(task["shards"] or task["folder"], f"Split-{task['split']}", name)
    with _open_shard(path, task["compression"]) as (out, measured):
        for number, packed in enumerate(task["images"]):
            record = read_record(marshal.loads(packed))
            # Images are ordered by hash, so the first ones are a random sample.
            check_pixels = decoding.check if number < task["decoded"] else None
            labels = task["label_ids"]
            try:
                example = make_example(record, labels, check_pixels, keypoints, task["exif_annotations"])
                cut = tile_examples(example, record, labels, keypoints, tiles) if tiles else (example,)
                for one in cut:
                    write_record(out, one.data)
                    counts.add(one)
            except Rejected as e:
                rejected.append(Rejection(record.filename, record.source_id, e.reason, e.detail))
    examples = counts.counts["total"]["images"]
    shard = Shard(uri=path, size=measured.size, crc32c=measured.crc32c, examples=examples)
    report = {
        "counts": counts.state(),
        "rejected": rejected,
        "split": task["split"],
        "shard": dataclasses.asdict(shard),
    }
    files.write_text(task_path.removesuffix(_TASK) + REPORT, json.dumps(report))
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


_logger = logging.getLogger(__name__)

# Measured on 640x480 JPEGs: one core encodes about 2,000 images a second. Worker processes of Beam's
# DirectRunner take about 15 seconds to start.
_IMAGES_PER_SECOND, _START_SECONDS = 2000, 15
_POLL_SECONDS = 1.0


def write_shards(tasks: Mapping[str, int], beam_args: Sequence[str]) -> None:
    """Write the shards of tasks, given as paths from `shards.write_tasks` to numbers of records.

    One element is one shard, because Beam's cost per element is several times that of an image. A failed
    shard is retried as a whole. Empty `beam_args` are chosen by the size of the work. A distributed runner
    needs the data and the examples folder on shared storage.
    """
    import apache_beam as beam

    arguments = list(beam_args) or choose_arguments(sum(tasks.values()), len(os.sched_getaffinity(0)))
    _logger.info("ingest | %d images in %d shards | %s", sum(tasks.values()), len(tasks), " ".join(arguments))

    def build(pipeline: beam.Pipeline) -> None:
        shards = pipeline | "Shards" >> beam.Create([os.fsencode(path) for path in tasks])
        _ = shards | "Write" >> beam.Map(_write_shard)

    with _watched(tasks):
        run_pipeline(build, arguments)


def _write_shard(task_path: bytes) -> int:
    # Use bytes, because Beam's text coder takes UTF-8 only, and a path on Linux may not be UTF-8.
    return write_shard(os.fsdecode(task_path))


def choose_arguments(images: int, cores: int) -> list[str]:
    """Choose DirectRunner's mode: in this process, or one process per core for larger data sets."""
    alone = images / _IMAGES_PER_SECOND
    if alone <= _START_SECONDS + alone / cores:
        return IN_PROCESS
    return in_processes(cores)


@contextlib.contextmanager
def _watched(tasks: Mapping[str, int]) -> Iterator[None]:
    """Report progress by the shards' report files, which works with every runner."""
    over = threading.Event()

    def watch() -> None:
        waiting = {path.removesuffix(_TASK) + REPORT: images for path, images in tasks.items()}
        folders = {os.path.dirname(path) for path in waiting}
        with Progress("ingest", total=sum(waiting.values()), unit="image") as progress:
            last = False
            while not last:
                last = over.wait(_POLL_SECONDS)
                # List once for all waiting shards; on an object store, each check of a path is a request.
                with contextlib.suppress(DataError, OSError):
                    there = {path for folder in folders for path in files.list_matching(folder, f"*{REPORT}")}
                    if done := there & waiting.keys():
                        progress.advance(sum(waiting.pop(path) for path in done))

    watcher = threading.Thread(target=watch, name="ingest-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
