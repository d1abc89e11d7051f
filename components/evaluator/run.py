"""Evaluator: compute metrics, pictures and a verdict of a detector."""

from typing import Any

from component_specs import EvaluatorJob
from detection_core.artifacts.blessing import write_blessing
from detection_core.builders.evaluation_settings import EvaluateOptions
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
        options=EvaluateOptions(
            split=job.split,
            thresholds=job.thresholds,
            slices=job.slices,
            pictures=job.pictures,
            write_detections=job.write_detections,
            trust=job.trust,
        ),
    )
    write_blessing(job.blessing, bool(report.blessed), report.reasons)
    return {"blessed": report.blessed, "images": report.images, "split": report.split}
