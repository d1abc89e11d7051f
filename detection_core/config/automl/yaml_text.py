"""YAML of hyper-parameters, as people write it and as google/automl's training saves it."""

from __future__ import annotations

from typing import Any

from detection_core.bounded.plain_yaml import parse_yaml
from detection_core.bounded.text_file import read_text_file
from detection_core.errors import ConfigError, shorten


def read_yaml_file(path: str) -> dict[Any, Any]:
    """Read a YAML file whose top level is a table; an empty file is an empty one.

    Raises:
        ConfigError: when it cannot be read, or is no table.
    """
    return read_yaml(read_text_file(path, what="YAML file"), where=path)


def read_yaml(text: str, *, where: str) -> dict[Any, Any]:
    """Read the text of a YAML document whose top level is a table; an empty one is an empty table.

    Args:
        text: the document.
        where: its file, for errors.

    Raises:
        ConfigError: when it is no YAML, or no table, with the line.
    """
    content = parse_yaml(text, where, tuples=True)
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(
            f"expected a table of key: value lines, found {shorten(content)}; write num_classes: 20",
            where=where,
        )
    return content
