"""Measures the parts of some data on Beam's workers, for the process that waits."""

import contextlib
import functools
import logging
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import apache_beam as beam

from components.runtime.beam_pipeline import in_processes, run_pipeline
from detection_core.errors import DetectionError
from detection_core.storage import files

_logger = logging.getLogger(__name__)

Part = TypeVar("Part")
Result = TypeVar("Result")
_Join = Callable[[Any, Any], Any] | None


class _Outcome(NamedTuple):
    """The joined results of a part or of several; None if results are not joined.

    `error` has the class name, message and place of an error of the user's. It is a result, because Beam
    would repeat the work, and wrap the error in its own.
    """

    place: int
    result: Any
    error: tuple[str, ...] = ()


def _joined(join: _Join, outcomes: Iterable[_Outcome]) -> _Outcome:
    """Join results if that is possible; keep the first error by place instead of all results."""

    def both(one: _Outcome, other: _Outcome) -> _Outcome:
        if one.error or other.error:
            return min(one, other, key=lambda each: (not each.error, each.place))
        return one._replace(result=join(one.result, other.result)) if join else one

    return functools.reduce(both, outcomes)


class _Measure(beam.DoFn):
    """Measures parts; without `join`, writes each result to a file. Each worker loads once."""

    def __init__(self, load: Callable[[], Callable[[Any], Any]], join: _Join, folder: str) -> None:
        self._load, self._join, self._folder = load, join, folder

    def setup(self) -> None:
        self._loaded = functools.cache(self._load)

    def process(self, placed: tuple[int, Any]) -> Iterator[_Outcome]:
        place, part = placed
        try:
            result = self._loaded()(part)
            if not self._join:
                _write(files.join(self._folder, str(place)), result)
                result = None
            yield _Outcome(place, result)
        except DetectionError as error:
            yield _Outcome(place, None, (type(error).__name__, error.message, error.where))


def measure_parts(
    parts: Sequence[Part],
    load: Callable[[], Callable[[Part], Result]],
    folder: str,
    beam_args: Sequence[str],
    join: Callable[[Result, Result], Result] | None = None,
) -> Iterator[Result]:
    """Measure parts on Beam's workers; yield the results in order, or the joined one.

    A worker holds one result at a time, or a few that it joins, and so does this process. A distributed
    runner needs the data and the folder on shared storage.

    Args:
        parts: elements, in order; they and their results can be pickled.
        load: returns the function that measures a part; called once by each worker.
        folder: an output of the step; the results pass through files beside it.
        beam_args: Beam's pipeline options; empty: a worker process per core.
        join: joins two results in any order; without it each one has a file.

    Raises:
        DetectionError: the first one by part.
        RuntimeError: as Beam raises it, for any other error of a worker.
    """
    if not parts:
        return
    path, arguments = f"{folder.rstrip('/')}.parts", beam_args or in_processes(len(os.sched_getaffinity(0)))
    _logger.info("beam | %d parts | %s", len(parts), " ".join(arguments))
    joined = files.join(path, "joined")

    def build(pipeline: beam.Pipeline) -> None:
        placed = pipeline | "Parts" >> beam.Create(list(enumerate(parts))) | beam.Reshuffle()
        measured = placed | "Measure" >> beam.ParDo(_Measure(load, join, path))
        one = measured | "Join" >> beam.CombineGlobally(functools.partial(_joined, join)).without_defaults()
        _ = one | "Write" >> beam.Map(functools.partial(_write, joined))

    try:
        run_pipeline(build, arguments)
        outcome = _read(joined)
        if outcome.error:
            kind, message, where = outcome.error
            raise {e.__name__: e for e in DetectionError.__subclasses__()}[kind](message, where=where)
        if join:
            yield outcome.result
        else:
            yield from (_read(files.join(path, str(place))) for place in range(len(parts)))
    finally:
        # A worker that outlives another may still write here; the run's own error counts.
        with contextlib.suppress(OSError):
            files.remove_tree(path)


def _write(path: str, content: object) -> None:
    with files.atomic_file(path) as file:
        pickle.dump(content, file)


def _read(path: str) -> Any:
    return pickle.loads(files.read_bytes(path))
