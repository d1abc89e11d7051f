"""Measures the parts of some data on Beam's workers, for the process that waits."""

import functools
import logging
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows

from components.runtime.beam_pipeline import in_processes, run_pipeline
from detection_core.errors import DetectionError
from detection_core.storage import files

_logger = logging.getLogger(__name__)

Part = TypeVar("Part")
Result = TypeVar("Result")
_Join = Callable[[Any, Any], Any] | None


class _Outcome(NamedTuple):
    """The result of a part, or of several from a place on.

    `error` has the class name, message and place of an error of the user's. It is a result, because Beam
    would repeat the work, and wrap the error in its own.
    """

    place: int
    result: Any
    error: tuple[str, ...] = ()


def _joined(outcomes: Iterable[_Outcome], join: _Join) -> list[_Outcome]:
    """Join results if that is possible; keep the first error by place instead of all results."""
    kept: list[_Outcome] = []
    for outcome in outcomes:
        if kept and (kept[0].error or outcome.error):
            kept = [min(kept[0], outcome, key=lambda one: (not one.error, one.place))]
        elif kept and join:
            kept = [_Outcome(kept[0].place, join(kept[0].result, outcome.result))]
        else:
            kept.append(outcome)
    return kept


class _Measure(beam.DoFn):
    """Measures parts, and joins those of a bundle; each worker loads once."""

    def __init__(self, load: Callable[[], Callable[[Any], Any]], join: _Join) -> None:
        self._load, self._join = load, join

    def setup(self) -> None:
        self._loaded = functools.cache(self._load)

    def start_bundle(self) -> None:
        self._outcomes: list[_Outcome] = []

    def process(self, placed: tuple[int, Any]) -> None:
        place, part = placed
        try:
            outcome = _Outcome(place, self._loaded()(part))
        except DetectionError as error:
            outcome = _Outcome(place, None, (type(error).__name__, error.message, error.where))
        self._outcomes = _joined([*self._outcomes, outcome], self._join)

    def finish_bundle(self) -> Iterator[Any]:
        yield from map(GlobalWindows.windowed_value, self._outcomes)


def measure_parts(
    parts: Sequence[Part],
    load: Callable[[], Callable[[Part], Result]],
    folder: str,
    beam_args: Sequence[str],
    join: Callable[[Result, Result], Result] | None = None,
) -> list[Result]:
    """Measure parts on Beam's workers; return the results in order, or the joined one.

    A distributed runner needs the data and the folder on shared storage.

    Args:
        parts: elements, in order; they and their results can be pickled.
        load: returns the function that measures a part; called once by each worker.
        folder: an output of the step; the results pass through a file beside it.
        beam_args: Beam's pipeline options; empty: a worker process per core.
        join: joins two results in any order, so that a worker's memory does not grow with its parts.

    Raises:
        DetectionError: the first one by part.
        RuntimeError: as Beam raises it, for any other error of a worker.
    """
    if not parts:
        return []
    path, arguments = f"{folder.rstrip('/')}.parts", beam_args or in_processes(len(os.sched_getaffinity(0)))
    _logger.info("beam | %d parts | %s", len(parts), " ".join(arguments))

    def build(pipeline: beam.Pipeline) -> None:
        placed = pipeline | "Parts" >> beam.Create(list(enumerate(parts))) | beam.Reshuffle()
        measured = placed | "Measure" >> beam.ParDo(_Measure(load, join))
        keyed = measured | "Gather" >> beam.WithKeys(None) | beam.GroupByKey()
        _ = keyed | "Write" >> beam.MapTuple(functools.partial(_write, path, join))

    try:
        run_pipeline(build, arguments)
        outcomes = sorted(pickle.loads(files.read_bytes(path)), key=lambda outcome: outcome.place)
    finally:
        files.remove_tree(path)
    if outcomes[0].error:
        kind, message, where = outcomes[0].error
        raise {known.__name__: known for known in DetectionError.__subclasses__()}[kind](message, where=where)
    return [outcome.result for outcome in outcomes]


def _write(path: str, join: _Join, _: None, outcomes: Iterable[_Outcome]) -> None:
    with files.atomic_file(path) as file:
        pickle.dump(_joined(outcomes, join), file)
