"""Evaluator: compute metrics, pictures and a verdict of a detector."""

from __future__ import annotations

from typing import Any

from component_specs import EvaluatorJob
from detection_core.artifacts.blessing import write_blessing
from detection_core.tasks.evaluate import EvaluateOptions, evaluate_examples


def run(job: EvaluatorJob) -> dict[str, Any]:
    """Measure the detector and bless it if every threshold holds.

    Returns:
        Properties of the evaluation artifact.
    """
    report = evaluate_examples(
        model_path=job.model,
        examples_dir=job.examples,
        evaluation_dir=job.evaluation,
        baseline_path=job.baseline,
        options=EvaluateOptions(
            split=job.split,
            thresholds=job.thresholds,
            pictures=job.pictures,
            trust=job.trust,
        ),
    )
    write_blessing(job.blessing, bool(report.blessed), report.reasons)
    return {"blessed": report.blessed, "images": report.images, "split": report.split}
