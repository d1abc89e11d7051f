"""Reads annotations in many files on Beam's workers; the result is that of one process."""

import dataclasses
import functools
import io
import logging
import marshal
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from components.example_gen.image_index import pack_record, read_record
from components.example_gen.shards import choose_arguments
from components.runtime.beam_pipeline import IN_PROCESS, run_pipeline
from detection_core.datasets.many_files import Finding, ManyFiles
from detection_core.errors import DetectionError
from detection_core.storage import files

Plan = Callable[[], ManyFiles]
"""Opens the same files in every process."""

_logger = logging.getLogger(__name__)

_LISTS, _PATHS = 256, 500
"""Lists of files that a part is divided into, and the most files of one."""

_FOUND = ".found"
_END, _ERROR = "end", "error"
"""Marks in a result: a file has been read; an error of the user's ends the reading."""


def read_files(
    plans: Sequence[Plan | None], *, folder: str, beam_args: Sequence[str], fewest: int = 200
) -> Sequence[ManyFiles | None]:
    """Read the files of all parts of a data set on Beam's workers, if there are many images.

    An element is a list of files. Lists and results are in files, because a runner limits the size of its job
    description. The result depends neither on the runner nor on the order of its workers.

    Args:
        plans: can be pickled; None for a part in one file.
        folder: for lists and results, on storage that all workers reach.
        beam_args: Beam's pipeline options; empty: chosen by the number of images.
        fewest: images from which it takes longer to read them than to start a pipeline.

    Returns:
        The parts, with what workers have found.
    """
    opened = [plan and plan() for plan in plans]
    parts = [part for part in opened if part is not None]
    images = sum(part.count() for part in parts)
    arguments = list(beam_args) or choose_arguments(images, len(os.sched_getaffinity(0)))
    if images < fewest or arguments == IN_PROCESS:
        return opened
    found = _read_on_workers(list(filter(None, plans)), parts, folder, arguments)
    return [part and next(found) for part in opened]


def _read_on_workers(
    plans: Sequence[Plan], parts: Sequence[ManyFiles], folder: str, arguments: Sequence[str]
) -> Iterator[ManyFiles]:
    import apache_beam as beam

    lists = [_write_lists(files.join(folder, f"part-{place}"), part) for place, part in enumerate(parts)]
    elements = [(place, os.fsencode(path)) for place, paths in enumerate(lists) for path in paths]
    count = sum(len(part.paths) for part in parts)
    _logger.info("ingest | %d annotation files in %d lists | %s", count, len(elements), " ".join(arguments))

    def build(pipeline: beam.Pipeline) -> None:
        made = pipeline | "Lists" >> beam.Create(elements) | "Spread" >> beam.Reshuffle()
        _ = made | "Read" >> beam.Map(_Reader(plans))

    run_pipeline(build, arguments)
    return (
        dataclasses.replace(part, read=functools.partial(_next_findings, _entries(paths)))
        for part, paths in zip(parts, lists, strict=True)
    )


def _write_lists(prefix: str, part: ManyFiles) -> list[str]:
    length = max(1, min(_PATHS, len(part.paths) // _LISTS))
    written = []
    for begin in range(0, len(part.paths), length):
        written.append(f"{prefix}-{begin:09d}.files")
        files.write_bytes(written[-1], marshal.dumps(list(part.paths[begin : begin + length])))
    return written


class _Reader:
    """Reads lists of files; each worker lists a data set once.

    Errors of the user's are results, because Beam would repeat the work, and wrap them in its own.
    """

    def __init__(self, plans: Sequence[Plan]) -> None:
        self._plans = plans
        self._opened: dict[int, ManyFiles] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": {}}

    def __call__(self, element: tuple[int, bytes]) -> None:
        place, path = element[0], os.fsdecode(element[1])
        with files.atomic_file(f"{path}{_FOUND}") as file:
            try:
                if place not in self._opened:
                    self._opened[place] = self._plans[place]()
                part = self._opened[place]
                for each in marshal.loads(files.read_bytes(path)):
                    for finding in part.read(each):
                        file.write(_packed(finding))
                    file.write(marshal.dumps(_END))
            except DetectionError as e:
                file.write(marshal.dumps((_ERROR, type(e).__name__, e.message, e.where)))


def _packed(finding: Finding) -> bytes:
    image = finding.image and pack_record(finding.image)
    keypoint_names = {name: list(names) for name, names in finding.keypoint_names.items()}
    return marshal.dumps((image, tuple(finding.fault), dict(finding.classes), keypoint_names))


def _entries(lists: Sequence[str]) -> Iterator[Any]:
    """Yield the entries of all results."""
    for path in lists:
        with files.open_regular(f"{path}{_FOUND}", sys.maxsize) as raw:
            file = io.BufferedReader(raw)  # type: ignore[type-var] # as open() gives it
            while file.peek(1):
                yield marshal.load(file)


def _next_findings(entries: Iterator[Any], _: str) -> Iterator[Finding]:
    """Yield what the next file has; files are asked for in the order of the lists."""
    while (entry := next(entries)) != _END:
        if entry[0] == _ERROR:
            kind, message, where = entry[1:]
            known = {error.__name__: error for error in DetectionError.__subclasses__()}
            raise known[kind](message, where=where)
        image, *fields = entry
        yield Finding(image and read_record(marshal.loads(image)), *fields)
