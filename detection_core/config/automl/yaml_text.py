"""Read the YAML of hyper-parameters, written by hand or saved by google/automl's training."""

from __future__ import annotations

from typing import Any

from detection_core.bounded.plain_yaml import parse_yaml
from detection_core.bounded.text_file import read_text_file
from detection_core.errors import ConfigError, shorten


def read_yaml_file(path: str) -> dict[Any, Any]:
    """Read a YAML file whose top level is a mapping; an empty file gives an empty dict.

    Raises:
        ConfigError: when it cannot be read, or is not a mapping.
    """
    return read_yaml(read_text_file(path, what="YAML file"), where=path)


def read_yaml(text: str, *, where: str) -> dict[Any, Any]:
    """Read a YAML document whose top level is a mapping; an empty text gives an empty dict.

    Raises:
        ConfigError: when it is not YAML, or not a mapping, with the line.
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
