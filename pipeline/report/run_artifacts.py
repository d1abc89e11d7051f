"""Read the artifacts of a run's steps; missing or damaged ones are skipped."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from detection_core.artifacts.json_file import JsonFile
from detection_core.artifacts.run_info import RunInfo, StepInfo
from detection_core.errors import ContractError
from detection_core.storage import files

_logger = logging.getLogger(__name__)

_Part = TypeVar("_Part")
_Artifact = TypeVar("_Artifact")


class RunArtifacts:
    """Outputs of a run's steps, by component and name."""

    def __init__(self, run: RunInfo) -> None:
        self.run = run

    def steps_of(self, component: str) -> list[StepInfo]:
        """Return a component's steps that have outputs, in the DAG's order."""
        return [s for s in self.run.steps if s.component == component and s.outputs]

    def folder(self, component: str, output: str) -> str:
        """Return the folder of an output of the component's first step, "" if there is none."""
        steps = self.steps_of(component)
        return steps[0].outputs.get(output, "") if steps else ""


def find(artifact: JsonFile[_Artifact], folder: str) -> _Artifact | None:
    """Read a file of a step; None, with a warning, if it is missing or invalid."""
    try:
        return artifact.find(folder)
    except ContractError as error:
        _logger.warning("report | a file is left out: %s", error)
        return None


def read_text(folder: str, name: str) -> str | None:
    """Read a text file; None if missing."""
    path = files.join(folder, name)
    try:
        return files.read_text(path) if folder and files.exists(path) else None
    except (OSError, ValueError) as error:
        _logger.warning("report | %s is left out: %s", path, error)
        return None


def unless_damaged(part: Callable[[], _Part], where: str, otherwise: Any) -> _Part | Any:
    """Return a part of the page, or a default if its files are damaged.

    The warning names its source files, `where`.
    """
    try:
        return part()
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        _logger.warning(
            "report | %s is left out: expected the output of its step, found something else (%s: %s);"
            " remove its folder and run again",
            where,
            type(error).__name__,
            error,
        )
        return otherwise
