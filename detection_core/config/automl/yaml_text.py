"""YAML of hyper-parameters, as people write it and as google/automl's training saves it."""

from __future__ import annotations

from typing import Any

import yaml

from detection_core.config.text.text_proto import read_message_text
from detection_core.errors import ConfigError, shorten


class _Loader(yaml.SafeLoader):
    """Reads plain YAML, and the tuples that Python's YAML writes for an image size.

    Aliases are refused: a few lines of them stand for more values than a memory holds.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event: yaml.AliasEvent = self.get_event()  # type: ignore[no-untyped-call]
            line = event.start_mark.line + 1 if event.start_mark else 0
            raise yaml.YAMLError(f"an alias, *{event.anchor}, in line {line}")
        return super().compose_node(parent, index)


def _tuple(loader: yaml.SafeLoader, node: yaml.SequenceNode) -> tuple[Any, ...]:
    return tuple(loader.construct_sequence(node, deep=True))


_Loader.add_constructor("tag:yaml.org,2002:python/tuple", _tuple)


def read_yaml_file(path: str) -> dict[Any, Any]:
    """Read a YAML file whose top level is a table; an empty file is an empty one.

    Raises:
        ConfigError: when it cannot be read, or is no table.
    """
    return read_yaml(read_message_text(path, what="YAML file"), where=path)


def read_yaml(text: str, *, where: str) -> dict[Any, Any]:
    """Read the text of a YAML document whose top level is a table; an empty one is an empty table.

    Args:
        text: the document.
        where: its file, for errors.

    Raises:
        ConfigError: when it is no YAML, or no table, with the line.
    """
    try:
        content = yaml.load(text, Loader=_Loader)  # a SafeLoader with one more constructor
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f"{where}:{mark.line + 1}" if mark else where
        raise ConfigError(
            f"expected YAML, found an error ({error.problem}); correct it", where=line
        ) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"expected YAML, found an error ({shorten(str(error))}); correct it", where=where
        ) from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(
            f"expected a table of key: value lines, found {shorten(content)}; write num_classes: 20",
            where=where,
        )
    return content
