"""The text of a settings file, with a comment above each choice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from detection_core.config.text.text_edits import comment_lines
from detection_core.zoo.fine_tuning import Choice

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
