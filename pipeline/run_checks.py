"""Checks before a run, by the component RunChecker.

Locally, the component's function is called before the pipeline is rendered. On a cluster it is a step whose
results are parameters of other steps.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from component_specs import JOBS, RunCheckerJob
from component_specs.annotations import job_fields
from component_specs.evaluator import THRESHOLDS
from component_specs.kfp_outputs import KFP_OUTPUTS
from components.run_checker.placeholders import asks_for_value
from components.run_checker.run import FILLED
from detection_core.errors import ConfigError
from detection_core.storage import files
from pipeline.extras import require
from pipeline.settings.kubeflow_settings import KubeflowSettings
from pipeline.settings.schedule_settings import ScheduleSettings
from pipeline.settings.settings_file import format_settings
from pipeline.settings.step_ids import RUN_CHECKER
from pipeline.settings.workflow_settings import PipelineSettings
from pipeline.step_configs import fine_tune_checkpoint
from pipeline.steps import FromCheck, FromResult, Step

CHECKS = tuple(KFP_OUTPUTS[RUN_CHECKER].results)


def run_checks(settings: PipelineSettings, **given: Any) -> Mapping[str, Any]:
    """Return the value of every check, keyed by `CHECKS`.

    `given` are fields of the RunCheckerJob that differ in this run.

    Raises:
        DetectionError: as in `components.run_checker.run.run`; ConfigError for a missing extra.
    """
    from components.run_checker.run import run

    if settings.push.register:
        require("mlflow", "push.register")
    return run(RunCheckerJob(**{**checker_parameters(settings), **given}))


def check_step(settings: PipelineSettings) -> Step:
    """Return the checks as a step of a workflow."""
    return Step(id=RUN_CHECKER, component=RUN_CHECKER, parameters=checker_parameters(settings), inputs={})


def checker_parameters(settings: PipelineSettings) -> dict[str, Any]:
    """Return the fields of the RunCheckerJob of a workflow."""
    declared = job_fields(RunCheckerJob).parameters
    named = {n: value for section in (settings.data, settings.train) for n, value in section if n in declared}
    return named | {
        "data_path": settings.data.path,
        "data_format": settings.data.format,
        "compared_spans": settings.validation.earlier_spans if settings.validation.enabled else 0,
        "push_destination": settings.push_destination,
        "request": request_fingerprint(settings),
        "thresholds": THRESHOLDS.encode(settings.evaluate.thresholds),
        "work_dir": os.path.join(settings.workspace, "work"),
        "fine_tune_checkpoint": fine_tune_checkpoint(settings),
    }


def refuse_placeholders(steps: Sequence[Step]) -> None:
    """Refuse placeholders that RunChecker does not fill; ConfigError names step and parameter."""
    for step in steps:
        declared = job_fields(JOBS[step.component]).parameters
        for name, value in step.parameters.items():
            is_filled = step.component == RUN_CHECKER and name in FILLED
            if is_filled or isinstance(value, FromCheck | FromResult):
                continue
            text = str(declared[name].codec.encode(value))
            if asks_for_value(text):
                raise ConfigError(
                    f"expected no placeholder, found {text!r}; they are filled in {', '.join(FILLED)} alone",
                    where=f"{step.id}: {name}",
                )


def request_fingerprint(settings: PipelineSettings) -> str:
    """Return a fingerprint of the settings and of the configuration files that they name."""
    # Name, workspace, cluster, schedule, notifications and checkpoints do not change a run's results.
    # Configuration files are hashed by content.
    asked = settings.model_copy(
        update={
            "name": "-",
            "workspace": "-",
            "model": settings.model.model_copy(update={"config": "-", "override_files": []}),
            "validation": settings.validation.model_copy(update={"schema_file": "-"}),
            "train": settings.train.model_copy(update={"checkpoint_minutes": 0.0, "weights_mirror": ""}),
            "kubeflow": KubeflowSettings(),
            "schedule": ScheduleSettings(),
        }
    )
    paths = [settings.model.config, *settings.model.override_files]
    paths += [settings.validation.schema_file] if settings.validation.schema_file else []
    text = "\0".join([format_settings(asked, exclude={"notify"}), *map(files.read_text, paths)])
    return hashlib.sha256(text.encode()).hexdigest()[:32]
