"""Trainer: train a detector and report its training."""

import os
from typing import Any

from component_specs import TrainerJob
from detection_core.artifacts.detector import PIPELINE_CONFIG
from detection_core.config.check import check_pipeline_config
from detection_core.config.input_paths import point_at_examples
from detection_core.config.load import load_config
from detection_core.config.model_fields import fine_tune_checkpoint
from detection_core.config.paths.overrides import apply_overrides
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.errors import DataError
from detection_core.progress import Reporter
from detection_core.tasks.examples import check_split
from detection_core.tasks.fitting.starting_files import starting_files
from detection_core.tasks.fitting.work_folder import ResumeOptions
from detection_core.tasks.train import train
from detection_core.training.restore import check_same_classes


def run(job: TrainerJob, progress: Reporter | None = None) -> dict[str, Any]:
    """Train the detector that the job's pipeline.config describes; `progress` as of `train`.

    Returns:
        Properties of the model artifact.

    Raises:
        DataError: when DataValidator refuses the examples.
        ModelError: when the deployed model, the start of training, has other classes than the data.
        DetectionError: as `detection_core.tasks.train.train`.
    """
    if job.stop_reasons:
        raise DataError(
            f"expected examples that pass the checks with severity stop, found: {job.stop_reasons};"
            " correct the data, or change validation.checks",
            where=job.examples,
        )
    check_split(job.examples, "train")
    config = training_config(job)
    if job.warm_start:
        # A schedule trains unattended, so it needs this check; a path from the user may have other classes.
        check_same_classes(job.warm_start, config.train_input_reader.label_map_path)
    warm_start = job.warm_start or job.warm_start_path
    if job.weights_mirror:
        starting_files(warm_start, fine_tune_checkpoint(config), mirror=job.weights_mirror)
    report = train(
        config,
        model_dir=job.model,
        model_run_dir=job.model_run,
        work_dir=job.work_dir,
        warm_start_dir=warm_start,
        progress=progress,
        resume=ResumeOptions(code_version=job.code_version, checkpoint_minutes=job.checkpoint_minutes),
    )
    return {"steps": report.steps, "parameters": report.parameters, "started_from": report.started_from}


def training_config(job: TrainerJob) -> CheckedConfig:
    """Return the job's config with its examples and overrides; ConfigError for an invalid one."""
    given = {"train_steps": job.train_steps, "learning_rate": job.learning_rate}
    config = apply_overrides(
        load_config(os.path.join(job.pipeline_config, PIPELINE_CONFIG), job.overrides),
        {name: value for name, value in given.items() if value},
    )
    return check_pipeline_config(point_at_examples(config, job.examples))
