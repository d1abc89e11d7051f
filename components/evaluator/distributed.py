"""Evaluation on Beam: files of records are measured and matched by workers, and joined in this process."""

import functools
from collections.abc import Callable, Sequence

from components.runtime.beam_parts import measure_parts
from detection_core.artifacts.evaluation import EvalReport
from detection_core.errors import ConfigError
from detection_core.evaluation.measure import Measurement, join_measurements
from detection_core.tasks.evaluate import Evaluation, is_results


def evaluate_on_beam(plan: Callable[[], Evaluation], beam_args: Sequence[str]) -> EvalReport:
    """Measure a detector on Beam's workers, and write the evaluation.

    An element is a file of records. The result depends neither on the runner nor on the order of its workers.
    A distributed runner needs examples, models and the evaluation's folder on shared storage. This process
    keeps the matches of all detections in memory, and the detections in a temporary file.

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
    return evaluation.report(join_measurements(measure_parts(places, load, evaluation.folder, beam_args)))


def _load(plan: Callable[[], Evaluation]) -> Callable[[int], dict[str, Measurement]]:
    evaluation = plan()
    runners = evaluation.load()
    return lambda place: evaluation.match(evaluation.measure(runners, evaluation.parts[place], partial=True))
