"""The verb `tune`: search for the configuration with the best validation score."""

from __future__ import annotations

import argparse
import os
import shlex
from typing import TYPE_CHECKING

from detection_core.errors import ConfigError
from detection_core.storage import files
from pipeline.cli.base import OVERRIDE_FILE, SET, SETTINGS, Result, argument, option, verb
from pipeline.tables import Page, Table

if TYPE_CHECKING:
    from pipeline.tuning.settings_search import TuneResult


@verb(
    "detflow tune examples/digits/settings.yaml --space examples/digits/space.yaml --workers 2",
    SETTINGS,
    argument("--space", required=True, metavar="FILE", help="what is searched (YAML)"),
    argument("--trials", type=int, metavar="N", help="trainings in all (default: as the file says)"),
    argument("--workers", type=int, default=1, metavar="N", help="trainings at the same time"),
    option("--output", "DIR", "keeps the search (default: in the workspace)"),
    SET,
    OVERRIDE_FILE,
    resumes=True,
)
def tune(arguments: argparse.Namespace) -> Result:
    """Search for the configuration with the best validation score; a repeated call resumes."""
    from pipeline.settings.settings_file import load_settings
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
    settings = load_settings(arguments.settings, arguments.overrides, override_files=arguments.override_files)
    space = load_space(arguments.space)
    name = os.path.splitext(os.path.basename(arguments.space))[0]
    folder = arguments.output or os.path.join(settings.workspace, "tuning", name)
    options = TunerOptions(trials=arguments.trials or space.trials, workers=arguments.workers)
    return _describe(search(settings, space, folder, options), arguments.settings)


def _describe(found: TuneResult, settings: str) -> Result:
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


VERBS = (tune,)
