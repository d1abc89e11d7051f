"""Verbs on a workflow and its local runs: run, validate, report, rollback, tune; `runs` is in `cluster`."""

import argparse
import os
import shlex
from typing import TYPE_CHECKING, Any

from detection_core.artifacts.run_info import RUN
from detection_core.errors import ConfigError
from detection_core.storage import files
from pipeline.cli.base import Result, given_settings, overridden_config, valid_config, verb
from pipeline.tables import Page, Table

if TYPE_CHECKING:
    from pipeline.tuning.settings_search import TuneResult


_SETTINGS_SUFFIXES = (".yaml", ".yml")


def _workspace(path: str) -> Any:
    from pipeline.local.workspace import Workspace

    if path.endswith(_SETTINGS_SUFFIXES):
        from pipeline.settings.settings_file import load_settings

        return Workspace(load_settings(path, check_files=False).workspace)
    if not files.is_remote(path) and not os.path.isdir(os.path.join(path, "runs")):
        raise ConfigError(
            "expected a settings file or a workspace with runs in it, found neither", where=path
        )
    return Workspace(path)


@verb("detflow run examples/digits/settings.yaml --set train_config.num_steps=200", resumes=True)
def run(arguments: argparse.Namespace) -> Result:
    """Run a workflow on this machine; finished steps come from the cache."""
    from pipeline.local.local_run import RunOptions, run_locally
    from pipeline.local.run_notification import notifying
    from pipeline.local.run_summary import summarise
    from pipeline.report.writer import write_report
    from pipeline.run_parameters import check_parameters, declared_parameters, parse_parameters
    from pipeline.schedule.trigger import parse_time

    settings = given_settings(arguments)
    if arguments.scheduled_time:
        parse_time(arguments.scheduled_time, "--scheduled-time")
    declared = declared_parameters()
    given = check_parameters(declared, parse_parameters(declared, arguments.parameters), "--param")
    slot = arguments.scheduled_time
    with notifying(settings, scheduled=bool(slot)) as tell:
        options = RunOptions(parameters=given, scheduled_time=slot, write_report=write_report, observe=tell)
        run = run_locally(settings, options)
    page, data = summarise(run)
    return Result(text=page, data=data)


@verb("detflow validate examples/digits/settings.yaml")
def validate(arguments: argparse.Namespace) -> Result:
    """Check a settings file or a pipeline.config, and describe its detector; nothing is run."""
    path = arguments.file
    if not path.endswith(_SETTINGS_SUFFIXES):
        return _validate_config(arguments)
    from detection_core.config.automl.translation import holds_hyperparameters

    if holds_hyperparameters(path):
        return _validate_hyperparameters(arguments)
    from pipeline.dag import build_dag
    from pipeline.settings.settings_file import load_settings
    from pipeline.step_configs import check_steps, training_config

    settings = load_settings(path, arguments.overrides, override_files=arguments.override_files)
    dag = build_dag(settings)
    check_steps(settings, training_config(settings, quantize=False))
    rows = [("step", "reads")]
    rows += [(s.id, ", ".join(f"{i.step}.{i.output}" for i in s.inputs.values()) or "-") for s in dag.steps]
    data = {"file": path, "valid": True, "steps": [s.id for s in dag.steps], "workspace": settings.workspace}
    return Result(text=Page((f"{path}: valid\n", Table(rows))), data=data)


def _validate_hyperparameters(arguments: argparse.Namespace) -> Result:
    from detection_core.config.automl.translation import translate
    from detection_core.config.check import check_pipeline_config
    from pipeline.descriptions import describe_config

    path = arguments.file
    found = translate("", path)
    config = overridden_config(found.config, arguments)
    check_pipeline_config(config, where=path)
    described = describe_config(config)
    notes = "".join(f"without effect: {note}\n" for note in found.notes)
    text = f"{path}: valid hyper-parameters\n{notes}\n{described.text}"
    data = {"file": path, "valid": True, "notes": list(found.notes), **described.data}
    return Result(text=text, data=data)


def _validate_config(arguments: argparse.Namespace) -> Result:
    from detection_core.config.load import with_line
    from pipeline.descriptions import describe_config

    path = arguments.file
    config = valid_config(arguments)
    try:
        found = describe_config(config)
    except ConfigError as error:
        raise with_line(error, path) from error
    text = f"{path}: a valid pipeline.config\n\n{found.text}"
    return Result(text=text, data={"file": path, "valid": True, **found.data})


def runs(arguments: argparse.Namespace) -> Result:
    """List the runs of a workspace."""
    found = _workspace(arguments.workspace).runs()
    rows = [("run", "pipeline", "started", "status", "steps")]
    for run in found:
        states = [s.state for s in run.steps]
        counts = ", ".join(f"{states.count(s)} {s}" for s in dict.fromkeys(states))
        rows.append((run.run_id, run.pipeline_name, run.started, run.status, counts))
    return Result(text=Table(rows) if found else "no runs yet", data=[RUN.encode(run) for run in found])


@verb("detflow runs prune build/digits/workspace --keep 5 --dry-run")
def prune(arguments: argparse.Namespace) -> Result:
    """Remove old runs of a workspace, with the artifacts that only they refer to."""
    from pipeline.local.pruning import plan_pruning, prune

    how = plan_pruning if arguments.dry_run else prune
    found = how(_workspace(arguments.workspace), arguments.keep)
    ids = [run.run_id for run in found.runs]
    done = "would be removed" if arguments.dry_run else "were removed"
    text = "\n".join([*ids, *found.artifacts, f"{len(ids)} runs and {len(found.artifacts)} artifacts {done}"])
    return Result(text=text, data={"runs": ids, "artifacts": found.artifacts})


@verb("detflow report examples/digits/settings.yaml")
def report(arguments: argparse.Namespace) -> Result:
    """Write the HTML report of a run and print its path."""
    workspace = _workspace(arguments.workspace)
    run = workspace.run(arguments.run)
    from pipeline.report.writer import write_report

    path = arguments.output or workspace.report_path(run.run_id)
    write_report(run, path)
    return Result(text=path, data={"run": run.run_id, "report": path})


@verb("detflow rollback build/digits/workspace/pushed")
def rollback(arguments: argparse.Namespace) -> Result:
    """Take the deployed version out of service and return to an earlier one."""
    from components.publishing.destination import PushDestination
    from detection_core.artifacts.published import CURRENT, is_destination

    path = arguments.destination
    if path.endswith(_SETTINGS_SUFFIXES):
        from pipeline.settings.settings_file import load_settings

        path = load_settings(path, check_files=False).push_destination
    if not is_destination(path):
        raise ConfigError(
            f"expected a settings file or a push destination with {CURRENT.name} in it, found neither",
            where=path,
        )
    destination = PushDestination(path)
    version = destination.rollback(arguments.to, arguments.public_key)
    text = f"deployed: version {version.number} in {destination.saved_model_dir(version.number)}"
    return Result(text=text, data={"version": version.number, "rolled_back": destination.rolled_back()})


@verb(
    "detflow tune examples/digits/settings.yaml --space examples/digits/space.yaml --workers 2", resumes=True
)
def tune(arguments: argparse.Namespace) -> Result:
    """Search for the configuration with the best validation score; a repeated call resumes."""
    from pipeline.tuning.search import load_space
    from pipeline.tuning.settings_search import tune as search
    from pipeline.tuning.tuner import TunerOptions

    for name in ("trials", "workers"):
        if getattr(arguments, name) is not None and getattr(arguments, name) < 1:
            raise ConfigError(f"expected 1 or more, found {getattr(arguments, name)}", where=f"--{name}")
    if files.is_remote(arguments.output):
        raise ConfigError(
            "expected a folder on this machine, where the search is locked, found an object store; name"
            " another, or leave it out",
            where="--output",
        )
    settings = given_settings(arguments)
    space = load_space(arguments.space)
    name = os.path.splitext(os.path.basename(arguments.space))[0]
    folder = arguments.output or os.path.join(settings.workspace, "tuning", name)
    options = TunerOptions(trials=arguments.trials or space.trials, workers=arguments.workers)
    return _describe_search(search(settings, space, folder, options), arguments.settings)


def _describe_search(found: "TuneResult", settings: str) -> Result:
    names = list(found.best.overrides)
    short = [name.rpartition(".")[2] for name in names]
    rows = [("trial", "state", "score", *(short if len(set(short)) == len(short) else names))]
    for trial in sorted(found.trials, key=lambda t: -1.0 if t.score is None else t.score, reverse=True):
        score = "-" if trial.score is None else f"{trial.score:.4f}"
        values = [_text(trial.overrides.get(name, "-")) for name in names]
        rows.append((str(trial.number + 1), trial.state, score, *values))
    best = found.best
    # Katib's metrics collector reads the last line.
    text = (
        f"\nbest: trial {best.number + 1}, detector {found.model}\n"
        f"{shlex.join(['detflow', 'run', settings, '--override-file', found.overrides])}\n"
        f"score={best.score:.10f}\n"
    )
    data = {
        "best": best.number,
        "score": best.score,
        "overrides": dict(best.overrides),
        "override_file": found.overrides,
        "model": found.model,
        "trials": [
            {"number": t.number, "state": t.state, "score": t.score, "overrides": dict(t.overrides)}
            for t in found.trials
        ],
    }
    return Result(text=Page((Table(rows), text)), data=data)


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


VERBS = (run, validate, report, rollback, tune)
