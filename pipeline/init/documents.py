"""The files of a first workflow: texts and a picture."""

from __future__ import annotations

import os
from collections.abc import Mapping

from detection_core.artifacts.detector import PIPELINE_CONFIG
from detection_core.config.load import format_commented_config
from detection_core.config.text.text_edits import comment_lines
from detection_core.errors import ConfigError
from detection_core.storage import files
from detection_core.storage.scratch_folder import ScratchFolder
from detection_core.zoo.fine_tuning import Choice
from pipeline.config_checks import check_steps
from pipeline.dag import build_dag
from pipeline.init.plan import Plan
from pipeline.init.sample_grid import draw_sample_grid
from pipeline.init.settings_choice import pipeline_name
from pipeline.init.settings_text import choice_comment, format_settings_file
from pipeline.settings.settings_file import load_settings
from pipeline.step_configs import training_config

SETTINGS, GRID = "settings.yaml", "samples.png"
_WORKSPACE = "workspace"


def write_documents(plan: Plan) -> dict[str, bytes]:
    """Return file name to content; the picture is left out if no image can be read."""
    contents = {
        SETTINGS: settings_text(plan).encode(),
        PIPELINE_CONFIG: config_text(plan).encode(),
    }
    grid = draw_sample_grid(plan.seen.examples, list(plan.seen.classes))
    return contents if grid is None else {**contents, GRID: grid}


def check_documents(contents: Mapping[str, bytes], data: str) -> None:
    """Refuse files that `detflow run` would not accept, before they are written.

    Raises:
        ConfigError: naming the problem, for example a character in the folder's name.
    """
    with ScratchFolder() as folder:
        for name, content in contents.items():
            files.write_bytes(os.path.join(folder, name), content)
        try:
            settings = load_settings(os.path.join(folder, SETTINGS))
            check_steps(settings, training_config(settings, quantize=False))
            build_dag(settings)
        except ConfigError as error:
            raise ConfigError(f"no workflow can be made of it: {error.message}", where=data) from error


def settings_text(plan: Plan) -> str:
    """Return the settings file."""
    name = pipeline_name(os.path.abspath(plan.request.folder))
    return format_settings_file(
        (
            f"A first workflow for {plan.request.data}; every choice has its reason above it.",
            f"Look at {GRID} first: boxes should lie where the objects are. Then: detflow run {SETTINGS}",
        ),
        (
            Choice(path="name", value=name, reason="", source=""),
            Choice(path="workspace", value=_WORKSPACE, reason="", source=""),
            *plan.settings,
        ),
    )


def config_text(plan: Plan) -> str:
    """Return the pipeline.config."""
    comments = {c.path: comment for c in plan.config_choices if (comment := choice_comment(c))}
    head = f"The detector of {SETTINGS}, and how it is trained; every choice has its reason above it."
    return "\n".join([*comment_lines(head), format_commented_config(plan.config, comments)])
