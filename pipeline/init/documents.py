"""The files of a first workflow: texts and a picture."""

import os
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from detection_core.artifacts.detector import PIPELINE_CONFIG
from detection_core.config.load import format_commented_config
from detection_core.config.text.source_text import comment_lines
from detection_core.errors import ConfigError
from detection_core.storage import files
from detection_core.storage.scratch_folder import ScratchFolder
from detection_core.zoo.fine_tuning import Choice
from pipeline.dag import build_dag
from pipeline.init.plan import Plan
from pipeline.init.sample_grid import draw_sample_grid
from pipeline.init.settings_choice import pipeline_name
from pipeline.settings.settings_file import load_settings
from pipeline.step_configs import check_steps, training_config

SETTINGS, GRID = "settings.yaml", "samples.png"
_WORKSPACE = "workspace"


def write_documents(plan: Plan) -> dict[str, bytes]:
    """Return file name to content; the picture is left out if no image can be read."""
    contents = {SETTINGS: settings_text(plan).encode(), PIPELINE_CONFIG: config_text(plan).encode()}
    grid = draw_sample_grid(plan.seen.examples, list(plan.seen.classes))
    return contents if grid is None else {**contents, GRID: grid}


def check_documents(contents: Mapping[str, bytes], data: str) -> None:
    """Refuse files that `detflow run` would not accept; ConfigError names the problem."""
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
        (Choice(path="name", value=name), Choice(path="workspace", value=_WORKSPACE), *plan.settings),
    )


def config_text(plan: Plan) -> str:
    """Return the pipeline.config."""
    comments = {c.path: comment for c in plan.config_choices if (comment := choice_comment(c))}
    head = f"The detector of {SETTINGS}, and how it is trained; every choice has its reason above it."
    return "\n".join([*comment_lines(head), format_commented_config(plan.config, comments)])


_INDENT = "  "
_WIDTH = 100


def format_settings_file(head: Iterable[str], choices: Iterable[Choice]) -> str:
    """Return YAML that starts with comments, and has a comment above each choice.

    Keys, for example `data.path`, of a section are adjacent.
    """
    lines = [line for text in head for line in comment_lines(text)]
    section = ""
    for choice in choices:
        first, _, key = choice.path.partition(".")
        if key and first != section:
            lines += ["", f"{first}:"]
        section = first if key else ""
        indent = _INDENT if key else ""
        lines += comment_lines(choice_comment(choice), indent) if choice.reason else []
        lines += [indent + line for line in _entry(key or first, choice.value)]
    return "\n".join(lines) + "\n"


def choice_comment(choice: Choice) -> str:
    """Return the reason for a choice, with its source."""
    is_paper = "://" in choice.source
    return f"{choice.reason} ({choice.source})" if choice.reason and is_paper else choice.reason


def _entry(key: str, value: Any) -> list[str]:
    if not isinstance(value, dict):
        return _dumped({key: value}, flow=False)
    in_a_line = f"{key}: {' '.join(_dumped(value, flow=True))}"
    if len(in_a_line) <= _WIDTH:
        return [in_a_line]
    inner = all(isinstance(part, dict) for part in value.values())
    return _dumped({key: value}, flow=None if inner else False)


def _dumped(value: Any, *, flow: bool | None) -> list[str]:
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=10_000, default_flow_style=flow)
    return text.rstrip("\n").split("\n")
