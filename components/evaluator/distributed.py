"""Evaluation as a Beam pipeline: files of records are measured and matched by workers, and joined once."""

import functools
import itertools
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import apache_beam as beam

from components.runtime.beam_pipeline import run_pipeline
from detection_core.errors import ConfigError, DetectionError
from detection_core.evaluation.coco_matching import MatchTable, join_tables
from detection_core.evaluation.measure import Measurement, join_measurements
from detection_core.evaluation.signature_runner import Runner
from detection_core.storage import files
from detection_core.tasks.evaluate import Evaluation, is_results

_logger = logging.getLogger(__name__)

Plan = Callable[[], Evaluation]
"""Plans the same evaluation in every process."""


class MeasuredPart(NamedTuple):
    """Results on one part of a split.

    Attributes:
        place: of the part in the split.
        measured: name of a detector to its results.
        matched: name of a detector to its matches, whose images are counted from the part's first one.
        error: class name, message and place of an error of the user's; empty: none.
    """

    place: int
    measured: dict[str, Measurement]
    matched: dict[str, dict[str, MatchTable]]
    error: tuple[str, ...] = ()


class _Measure(beam.DoFn):
    """Measures parts; each worker loads the detectors once.

    Errors of the user's are results, because Beam would repeat the work, and wrap them in its own.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def setup(self) -> None:
        self._loaded = functools.cache(self._load)

    def _load(self) -> tuple[Evaluation, dict[str, Runner]]:
        evaluation = self._plan()
        return evaluation, evaluation.load()

    def process(self, place: int) -> Iterator[MeasuredPart]:
        try:
            evaluation, runners = self._loaded()
            measured = evaluation.measure(runners, evaluation.parts[place], partial=True)
            yield MeasuredPart(place, measured, evaluation.match(measured))
        except DetectionError as error:
            yield MeasuredPart(place, {}, {}, _as_data(error))


def _as_data(error: DetectionError) -> tuple[str, ...]:
    return type(error).__name__, error.message, error.where


def evaluate_on_beam(plan: Plan, beam_args: Sequence[str]) -> None:
    """Measure a detector on Beam's workers, and write the evaluation.

    An element is a file of records. The result depends neither on the runner nor on the order of its workers.
    A distributed runner needs examples, models and the evaluation's folder on shared storage. One worker
    holds all detections in memory when it joins them.

    Args:
        plan: can be pickled; gives an evaluation of record files.
        beam_args: Beam's pipeline options.

    Raises:
        DetectionError: as `Evaluation.run`; ConfigError for detections in a file instead of a detector.
        RuntimeError: as Beam raises it, for any other error of a worker.
    """
    evaluation = plan()
    error_path = _error_path(evaluation)
    files.remove_tree(error_path)
    if results := list(filter(is_results, evaluation.paths.values())):
        raise ConfigError(
            f"expected a detector, found detections in {results[0]}; measure them in one process",
            where="evaluate.distributed",
        )
    count = len(evaluation.parts)
    _logger.info("evaluate | %d files of records | %s", count, " ".join(beam_args))

    def build(pipeline: beam.Pipeline) -> None:
        places = pipeline | "Parts" >> beam.Create(list(range(count))) | beam.Reshuffle()
        measured = places | "Measure" >> beam.ParDo(_Measure(plan))
        keyed = measured | "Gather" >> beam.WithKeys(None) | beam.GroupByKey()
        _ = keyed | "Report" >> beam.MapTuple(functools.partial(_report, plan))

    run_pipeline(build, beam_args)
    if files.exists(error_path):
        kind, message, where = json.loads(files.read_text(error_path))
        files.remove_tree(error_path)
        raise {known.__name__: known for known in DetectionError.__subclasses__()}[kind](message, where=where)


def _error_path(evaluation: Evaluation) -> str:
    """Return the file that tells the process that waits of an error of the user's."""
    return f"{evaluation.folder.rstrip('/')}.error.json"


def _report(plan: Plan, _: None, given: Any) -> None:
    parts, evaluation = sorted(given, key=lambda part: part.place), plan()
    try:
        if errors := [part.error for part in parts if part.error]:
            found = errors[0]
        else:
            evaluation.report(*join_parts(parts))
            return
    except DetectionError as error:
        found = _as_data(error)
    files.write_text(_error_path(evaluation), json.dumps(found))


def join_parts(
    parts: Sequence[MeasuredPart],
) -> tuple[dict[str, Measurement], dict[str, dict[str, MatchTable]]]:
    """Join the results on all parts of a split, given in any order."""
    ordered = sorted(parts, key=lambda part: part.place)
    first = ordered[0]
    lengths = (len(next(iter(part.measured.values())).images) for part in ordered[:-1])
    placed = list(zip(ordered, itertools.accumulate(lengths, initial=0), strict=True))
    measured = {name: join_measurements([part.measured[name] for part in ordered]) for name in first.measured}
    matched = {
        name: {
            shape: join_tables([part.matched[name][shape].shifted(start) for part, start in placed])
            for shape in tables
        }
        for name, tables in first.matched.items()
    }
    return measured, matched
