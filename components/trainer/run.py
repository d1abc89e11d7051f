"""Trainer: a pipeline.config and examples in, a detector and the record of its training out."""

from __future__ import annotations

from typing import Any

from component_specs import TrainerJob
from detection_core.config.inputs import point_at_examples
from detection_core.config.load import parse_pipeline_config
from detection_core.tasks.train import train


def run(job: TrainerJob) -> dict[str, Any]:
    """Train the detector that the job's pipeline.config describes.

    Returns:
        Properties of the model artifact.
    """
    config = point_at_examples(parse_pipeline_config(job.pipeline_config, "pipeline_config"), job.examples)

    report = train(
        config,
        model_dir=job.model,
        model_run_dir=job.model_run,
        work_dir=job.work_dir,
        warm_start_dir=job.warm_start or job.warm_start_path,
        code_version=job.code_version,
    )

    return {"steps": report.steps, "parameters": report.parameters, "started_from": report.started_from}
