"""The verbs of the command line."""

from importlib import metadata

from pipeline.cli import (
    bench,
    cluster,
    compare,
    compile,
    completion,
    config,
    data,
    doctor,
    inference,
    init,
    inspect,
    schedule,
    sensitivity,
    standalone,
    tune,
    workflow,
    zoo,
)
from pipeline.cli.base import Verb
from pipeline.cli.group import Group

VERBS: tuple[Verb | Group, ...] = (
    *init.VERBS,
    *workflow.VERBS,
    *tune.VERBS,
    *compile.VERBS,
    *cluster.VERBS,
    schedule.GROUP,
    *standalone.VERBS,
    *inference.VERBS,
    *inspect.VERBS,
    *bench.VERBS,
    *sensitivity.VERBS,
    *compare.VERBS,
    *config.VERBS,
    data.GROUP,
    zoo.GROUP,
    *doctor.VERBS,
    *completion.VERBS,
)


def version() -> str:
    """Return the installed version."""
    return metadata.version("detflow")
