"""Generate docs/settings.md and docs/settings.schema.json: `python -m tests.docs.settings_reference`.

Only the tables between two marks of the page are generated.
"""

from __future__ import annotations

import json
import pathlib
import re
import typing
from collections.abc import Iterator
from typing import Any, Literal

from pydantic.fields import FieldInfo

from pipeline.settings.kubeflow_settings import ConnectionSettings, TaskSettings
from pipeline.settings.setting_types import IsPath, Rule, Settings
from pipeline.settings.workflow_settings import PipelineSettings

DOCS = pathlib.Path(__file__).parents[2] / "docs"
PAGE, SCHEMA = DOCS / "settings.md", DOCS / "settings.schema.json"

_MARKS = "<!-- {0}: made by `python -m tests.docs.settings_reference` -->\n", "<!-- end of {0} -->"
_HEAD = "| key | type | default | meaning |\n|---|---|---|---|\n"
_OWN_TABLES = (ConnectionSettings, TaskSettings)
_PLAIN = {bool: "true or false", int: "whole number", float: "number", str: "text"}


def render_schema() -> str:
    """Return the JSON Schema of a settings file."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **PipelineSettings.model_json_schema(),
        "title": "Settings of a detflow workflow",
    }
    return json.dumps(schema, indent=1) + "\n"


def render_page(page: str) -> str:
    """Return the text of docs/settings.md with updated tables."""
    tables = {
        "the keys": _table(PipelineSettings),
        "the keys of kubeflow.connection": _table(ConnectionSettings),
        "the keys of a step": _table(TaskSettings),
    }
    for name, table in tables.items():
        begin, end = (mark.format(name) for mark in _MARKS)
        pattern = re.escape(begin) + ".*?" + re.escape(end)
        parts = re.split(pattern, page, flags=re.DOTALL)
        if len(parts) != 2:
            raise ValueError(f"expected {begin!r} once in docs/settings.md, found {len(parts) - 1} times")
        page = (begin + table + end).join(parts)
    return page


def _table(model: type[Settings]) -> str:
    return _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in _rows(model))


def _rows(model: type[Settings], prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Yield key, type, default and meaning of every key, including those of sections."""
    for name, field in model.model_fields.items():
        kind: Any = field.annotation
        if isinstance(kind, type) and issubclass(kind, Settings) and kind not in _OWN_TABLES:
            yield from _rows(kind, f"{prefix}{name}.")
        else:
            meaning = f"{field.description}{_examples(field)}".replace("|", "\\|")
            yield f"`{prefix}{name}`", _type(field), _default(field), meaning


def _type(field: FieldInfo) -> str:
    """Return the type of a field in words, with its choices or range."""
    is_path = any(isinstance(mark, IsPath) for mark in field.metadata)
    text = "path" if is_path else _words(field.annotation)
    if is_path and typing.get_origin(field.annotation) is list:
        text = "list of paths"
    for rule in field.metadata:
        if isinstance(rule, Rule) and "minimum" in rule.json_schema:
            text = f"{text}, {rule.expected}"
    unit = _about(field, "x-unit")
    return f"{text} ({unit})" if unit else text


def _words(kind: Any) -> str:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _words(arguments[0])
    if origin is Literal:
        *most, last = (f"`{choice}`" for choice in arguments if choice)
        return f"{', '.join(most)} or {last}" if most else last
    if origin is list:
        words = _words(arguments[0])
        return f"list of {words if words.startswith('`') else f'{words}s'}"
    if origin is dict or (isinstance(kind, type) and issubclass(kind, Settings)):
        return "map"
    return _PLAIN[kind]


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    unset = _about(field, "x-unset")
    if unset:
        return unset
    value = field.get_default(call_default_factory=True)
    if value in ("", [], {}) or isinstance(value, Settings):
        return "none"
    return _code(value)


def _examples(field: FieldInfo) -> str:
    examples = [_code(example) for example in field.examples or ()]
    return f" For example {', '.join(examples)}." if examples else ""


def _code(value: Any) -> str:
    """Format a value as in a settings file."""
    if isinstance(value, str):
        return f"`{value}`"
    text = json.dumps(int(value) if isinstance(value, float) and value.is_integer() else value)
    return f"`{text}`"


def _about(field: FieldInfo, key: str) -> str:
    extra = field.json_schema_extra
    return str(extra.get(key, "")) if isinstance(extra, dict) else ""


if __name__ == "__main__":
    PAGE.write_text(render_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    SCHEMA.write_text(render_schema(), encoding="utf-8")
