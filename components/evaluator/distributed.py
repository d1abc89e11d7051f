"""Evaluation on Beam: files of records are measured and matched by workers, and joined in this process."""

import functools
from collections.abc import Callable, Iterable, Sequence

from components.runtime.beam_parts import measure_parts
from detection_core.artifacts.evaluation import EvalReport
from detection_core.errors import ConfigError
from detection_core.evaluation.coco_matching import MatchTable, join_tables
from detection_core.evaluation.measure import Measurement, join_measurements
from detection_core.tasks.evaluate import Evaluation, is_results

MeasuredPart = tuple[dict[str, Measurement], dict[str, dict[str, MatchTable]]]
"""Each detector's results on a part of a split, and its matches, which count the part's images from 0."""


def evaluate_on_beam(plan: Callable[[], Evaluation], beam_args: Sequence[str]) -> EvalReport:
    """Measure a detector on Beam's workers, and write the evaluation.

    An element is a file of records. The result depends neither on the runner nor on the order of its workers.
    A distributed runner needs examples, models and the evaluation's folder on shared storage. This process
    holds all detections in memory when it joins them.

    Args:
        plan: gives the same evaluation of record files in every process; can be pickled.
        beam_args: as in `measure_parts`.

    Raises:
        DetectionError: as `Evaluation.run`; ConfigError for detections in a file instead of a detector.
        RuntimeError: as Beam raises it, for any other error of a worker.
    """
    evaluation = plan()
    if results := list(filter(is_results, evaluation.paths.values())):
        raise ConfigError(
            f"expected a detector, found detections in {results[0]}; measure them in one process",
            where="evaluate.distributed",
        )
    places, load = range(len(evaluation.parts)), functools.partial(_load, plan)
    return evaluation.report(*join_parts(measure_parts(places, load, evaluation.folder, beam_args)))


def _load(plan: Callable[[], Evaluation]) -> Callable[[int], MeasuredPart]:
    evaluation = plan()
    runners = evaluation.load()

    def measure(place: int) -> MeasuredPart:
        measured = evaluation.measure(runners, evaluation.parts[place], partial=True)
        return measured, evaluation.match(measured)

    return measure


def join_parts(parts: Iterable[MeasuredPart]) -> MeasuredPart:
    """Join the results on all parts of a split, in order."""
    found: dict[str, list[Measurement]] = {}
    tables: dict[str, dict[str, list[MatchTable]]] = {}
    start = 0
    for measured, matched in parts:
        for name, measurement in measured.items():
            found.setdefault(name, []).append(measurement)
            for shape, table in matched[name].items():
                tables.setdefault(name, {}).setdefault(shape, []).append(table.shifted(start))
        start += len(measurement.images)
    joined = {name: {shape: join_tables(t) for shape, t in each.items()} for name, each in tables.items()}
    return {name: join_measurements(each) for name, each in found.items()}, joined
