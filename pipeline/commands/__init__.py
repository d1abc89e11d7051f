"""The verbs of the command line."""

from importlib import metadata

from pipeline.commands import compile, config, standalone, workflow
from pipeline.commands.base import Verb

VERBS: tuple[Verb, ...] = (*workflow.VERBS, *compile.VERBS, *standalone.VERBS, *config.VERBS)


def version() -> str:
    """Return the installed version."""
    return metadata.version("detflow")
