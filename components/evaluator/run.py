"""Evaluator: compute metrics, pictures and a verdict of a detector."""

import dataclasses
from typing import Any

from component_specs import EvaluatorJob
from component_specs.annotations import options_of
from detection_core.artifacts.blessing import write_blessing
from detection_core.builders.evaluation_settings import EvaluateOptions
from detection_core.ops.tile_options import tile_options
from detection_core.tasks.evaluate import evaluate_config


def run(job: EvaluatorJob) -> dict[str, Any]:
    """Measure the detector and bless it if every threshold holds.

    Returns:
        Properties of the evaluation artifact.
    """
    report = evaluate_config(
        model_path=job.model,
        evaluation_dir=job.evaluation,
        examples_dir=job.examples,
        baseline_path=job.baseline,
        options=dataclasses.replace(options_of(EvaluateOptions, job), tiles=tile_options(job.tiles)),
    )
    write_blessing(job.blessing, bool(report.blessed), report.reasons)
    return {"blessed": report.blessed, "images": report.images, "split": report.split}
