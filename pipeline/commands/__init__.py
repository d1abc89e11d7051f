"""The verbs of the command line."""

from importlib import metadata

from pipeline.commands import standalone, workflow
from pipeline.commands.base import Verb

VERBS: tuple[Verb, ...] = (*workflow.VERBS, *standalone.VERBS)


def version() -> str:
    """Return the installed version."""
    return metadata.version("detflow")
