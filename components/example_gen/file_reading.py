"""Reads annotations in many files on Beam's workers; the result is that of one process."""

import collections
import dataclasses
import io
import logging
import marshal
import os
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from components.example_gen.image_index import pack_record, read_record
from components.example_gen.shards import WORK, choose_arguments
from components.runtime.beam_pipeline import IN_PROCESS, run_pipeline
from detection_core.datasets.annotated_images import AnnotatedImage, Annotations, ReadAll, ReadSome, Rejection
from detection_core.errors import DataError, DetectionError
from detection_core.storage import files

_logger = logging.getLogger(__name__)

_LISTS, _PATHS = 256, 500
"""Lists of files that a part of the data is divided into, and the most files of one."""


def on_workers(
    read_part: Callable[[ReadAll], Annotations], *, folder: str, beam_args: Sequence[str]
) -> ReadAll:
    """Return the function that reads a part's files on Beam's workers.

    An element is a list of files. Lists and results are in files, because a runner limits the size of its job
    description. The result depends neither on the runner nor on the order of its workers.

    Args:
        read_part: can be pickled; workers learn from it how to read files.
        folder: of the examples, on storage that all workers reach.
        beam_args: Beam's pipeline options; empty: chosen by the number of files.
    """

    def read_all(read: ReadSome, paths: Sequence[str]) -> Annotations:
        arguments = list(beam_args) or choose_arguments(len(paths), len(os.sched_getaffinity(0)))
        if len(paths) < 2 or arguments == IN_PROCESS:
            return read(paths)
        import apache_beam as beam

        lists, length = [], max(1, min(_PATHS, len(paths) // _LISTS))
        name = uuid.uuid4().hex  # of this part: a late worker of another one overwrites nothing
        for begin in range(0, len(paths), length):
            lists.append(files.join(folder, WORK, f"{name}-{begin:09d}.files"))
            files.write_bytes(lists[-1], marshal.dumps(list(paths[begin : begin + length])))
        _logger.info("ingest | %d annotation files in %d lists", len(paths), len(lists))

        def build(pipeline: beam.Pipeline) -> None:
            made = pipeline | "Lists" >> beam.Create([os.fsencode(path) for path in lists])
            _ = made | "Spread" >> beam.Reshuffle() | "Read" >> beam.Map(_Worker(read_part))

        run_pipeline(build, arguments)
        found = Annotations(keypoint_names={})
        return dataclasses.replace(found, images=_join(found, lists, lambda: read(paths)))

    return read_all


class _Worker:
    """Reads lists of files; a worker lists the data set once."""

    def __init__(self, read_part: Callable[[ReadAll], Annotations]) -> None:
        self._read_part, self._read = read_part, list[ReadSome]()

    def __call__(self, list_path: bytes) -> None:
        path = os.fsdecode(list_path)
        if not self._read:
            self._read_part(lambda read, _: self._read.append(read) or Annotations())  # type: ignore[func-returns-value]
        with files.atomic_file(f"{path}.found") as file:
            try:
                found = self._read[0](marshal.loads(files.read_bytes(path)))
                for image in found.images:
                    file.write(marshal.dumps(pack_record(image)))
                points = {name: list(names) for name, names in found.keypoint_names.items()}
                rest: Any = map(tuple, found.rejected), map(pack_record, found.unannotated), found.about
                file.write(marshal.dumps((found.categories, points, *map(list, rest))))
            except DetectionError:
                # Beam would repeat the work, and wrap the error in its own.
                file.write(marshal.dumps(None))


def _join(
    found: Annotations, lists: Sequence[str], read_here: Callable[[], Annotations]
) -> Iterator[AnnotatedImage]:
    """Yield the images of all results, and complete `found`."""
    ids, keypoint_names = found.categories, cast(dict[str, Sequence[str]], found.keypoint_names)
    for path in lists:
        with files.open_regular(f"{path}.found", sys.maxsize) as raw:
            file = io.BufferedReader(raw)  # type: ignore[type-var] # as open() gives it
            while isinstance(entry := marshal.load(file), bytes):
                yield read_record(marshal.loads(entry))
        if entry is None or any(n and ids.get(name) not in (None, 0, n) for name, n in entry[0].items()):
            # An error of the user's, or a class with two ids: raise it as one process does.
            collections.deque(read_here().images, maxlen=0)
            raise DataError("expected files that workers can read, found one that they cannot", where=path)
        ids.update((name, number or ids.get(name, 0)) for name, number in entry[0].items())
        keypoint_names.update(entry[1])
        found.rejected.extend(map(Rejection._make, entry[2]))
        found.unannotated.extend(read_record(marshal.loads(packed)) for packed in entry[3])
        found.about.update(entry[4])
