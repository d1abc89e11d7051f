"""Search from a workflow's settings, and write the best trial's config."""

import dataclasses
import hashlib
import json
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from detection_core.artifacts.blessing import read_verdict
from detection_core.artifacts.detector import PIPELINE_CONFIG
from detection_core.artifacts.run_info import RunInfo
from detection_core.config.paths.overrides import apply_overrides, field_texts
from detection_core.config.pipeline_config import PipelineConfig
from detection_core.errors import ConfigError, DataError
from detection_core.storage import files, local_lock
from pipeline.dag import trainer_step
from pipeline.extras import require
from pipeline.local.local_run import RunOptions, run_locally
from pipeline.settings.step_ids import DATA_VALIDATOR, TRAINER
from pipeline.settings.workflow_settings import PipelineSettings
from pipeline.step_configs import training_config
from pipeline.steps import FromCheck, FromResult
from pipeline.tuning.search import Search, Space, TrialRecord
from pipeline.tuning.tuner import Tuner, TunerOptions

WINNER = "best.yaml"


_logger = logging.getLogger(__name__)

_IDENTITY = "search.json"
_VALIDATED = ("train_config.validation", "eval_config.eval_interval_secs")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TuneResult:
    """The result of a search.

    Attributes:
        trials: every trial, by number.
        best: the complete trial with the highest score.
        overrides: path of the file with the best trial's overrides.
        model: the best trial's detector.
    """

    trials: tuple[TrialRecord, ...]
    best: TrialRecord
    overrides: str
    model: str


def tune(
    settings: PipelineSettings,
    space: Space,
    folder: str,
    options: TunerOptions,
    *,
    run_steps: Callable[[PipelineSettings], RunInfo] | None = None,
) -> TuneResult:
    """Search for the configuration with the best validation score.

    The steps before Trainer run once, or come from the workflow's cache. Each trial runs Trainer with other
    values. Repeating a killed search resumes it and its active trainings. The folder gets the journal, a
    folder for each trial, and the best trial. `run_steps` runs the steps before Trainer; default: in this
    process.

    Raises:
        ConfigError: for values that the config does not accept, or a folder with another search.
        DataError: when no training completes, or DataValidator refuses the examples.
        DetectionError: from the steps before.
    """
    require("tune", "detflow tune")
    check_space(settings, space)
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        text = f"cannot make the folder of the search ({error.strerror}); choose another --output"
        raise ConfigError(text, where=folder) from error
    run = run_steps(settings) if run_steps else run_locally(settings, RunOptions(until=TRAINER))
    text = "expected a search that no other process runs, found a running one; choose another --output"
    with local_lock.lock(os.path.join(folder, ".lock"), ConfigError(text, where=folder)):
        _check_identity(folder, settings, space, run)
        search = Search(space, folder)
        common = validation_overrides(training_config(settings, quantize=False))
        tuner = Tuner(search, lambda values: _job(settings, run, {**common, **values}), folder, options)
        tuner.run()
        best = search.best
        if best is None:
            raise DataError(
                "expected a trial that came to its end, found none; look at the trials' output.txt, and"
                " narrow the space",
                where=folder,
            )
        path = os.path.join(folder, WINNER)
        told = f"Trial {best.number + 1} of `detflow tune`, score {best.score}"
        head = f"# {told}; for `detflow run --override-file`.\n"
        files.write_text(path, head + yaml.safe_dump({**common, **best.overrides}, sort_keys=False))
        model = tuner.trial_folder(best.number).model
        return TuneResult(trials=tuple(search.records()), best=best, overrides=path, model=model)


def check_space(settings: PipelineSettings, space: Space) -> None:
    """Refuse fields and values that the config does not accept; ConfigError names the field."""
    config = training_config(settings, quantize=False)
    named = {*settings.model.overrides, *settings.train.overrides}
    for name, parameter in space.parameters.items():
        if name in named:
            raise ConfigError(
                "expected a field that only the search sets, found it in the settings, too; remove it from"
                " model.overrides and train.overrides",
                where=name,
            )
        for value in parameter.extremes:
            apply_overrides(config, {name: value})


def validation_overrides(config: PipelineConfig) -> dict[str, Any]:
    """Return overrides that add validations to each trial if the config has none."""
    fields = field_texts(config)
    if any(path.startswith(_VALIDATED) for path in fields):
        return {}
    steps = int(fields.get("train_config.num_steps", "0"))
    # All trials validate at the same steps, so that their intermediate scores can be compared.
    return {"train_config.validation": {"every_steps": max(1, steps // 10)} if steps else {}}


def _job(settings: PipelineSettings, run: RunInfo, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a trial's `TrainerJob`: the workflow's, with the trial's overrides."""
    outputs, trainer = {step.id: step.outputs for step in run.steps}, trainer_step(settings)
    verdict_folder = outputs.get(DATA_VALIDATOR, {}).get("blessing", "")
    verdict = read_verdict(verdict_folder) if verdict_folder else None
    given = {n: v for n, v in trainer.parameters.items() if not isinstance(v, FromCheck | FromResult)}
    taken = {name: outputs.get(at.step, {}).get(at.output, "") for name, at in trainer.inputs.items()}
    return {
        **given,
        **{name: path for name, path in taken.items() if path},
        "overrides": {**given["overrides"], **overrides},
        "stop_reasons": "; ".join(verdict.reasons) if verdict and not verdict.blessed else "",
    }


def _check_identity(folder: str, settings: PipelineSettings, space: Space, run: RunInfo) -> None:
    """Refuse the folder of a search with another space, config or data."""
    job = _job(settings, run, {})
    text = files.read_text(os.path.join(job["pipeline_config"], PIPELINE_CONFIG))
    overrides = json.dumps(job["overrides"], sort_keys=True)
    found = {
        "space": space.model_dump(exclude={"trials"}),
        "config": hashlib.sha256(f"{text}{overrides}".encode()).hexdigest(),
        "examples": job["examples"],
    }
    path = os.path.join(folder, _IDENTITY)
    now = json.loads(json.dumps(found))
    if files.exists(path):
        before = json.loads(files.read_text(path))
        other = [key for key in now if before.get(key) != now[key]]
        if other:
            raise ConfigError(
                f"expected the search that this folder holds, found another ({', '.join(other)} changed);"
                " choose another --output, or remove the folder",
                where=folder,
            )
    else:
        files.write_text(path, json.dumps(now, indent=1) + "\n")
