"""Evaluator: compute metrics, pictures and a verdict of a detector."""

import functools
from typing import Any

from component_specs import EvaluatorJob
from component_specs.annotations import options_of
from detection_core.artifacts.blessing import write_blessing
from detection_core.builders.evaluation_settings import EvaluateOptions
from detection_core.ops.tile_options import tile_options
from detection_core.tasks.evaluate import plan_evaluation


def run(job: EvaluatorJob) -> dict[str, Any]:
    """Measure the detector and bless it if every threshold holds.

    Returns:
        Properties of the evaluation artifact.
    """
    plan = functools.partial(
        plan_evaluation,
        model_path=job.model,
        evaluation_dir=job.evaluation,
        examples_dir=job.examples,
        baseline_path=job.baseline,
        options=options_of(EvaluateOptions, job, tiles=tile_options(job.tiles)),
    )
    if job.distributed:
        # Importing Beam takes seconds.
        from components.evaluator.distributed import evaluate_on_beam

        report = evaluate_on_beam(plan, job.beam_args)
    else:
        report = plan().run()
    write_blessing(job.blessing, bool(report.blessed), report.reasons)
    return {"blessed": report.blessed, "images": report.images, "split": report.split}
