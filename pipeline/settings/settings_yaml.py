"""The YAML of a settings file: plain values, where each key stands, and nothing that unfolds without end."""

from __future__ import annotations

import binascii
import contextlib
import os
import stat
from collections.abc import Iterator
from typing import Any

import yaml
from yaml.events import CollectionEndEvent, CollectionStartEvent

from detection_core.config.text.text_proto import read_message_text
from detection_core.errors import ConfigError
from detection_core.storage import files

MAX_BYTES = 16 * 2**20
MAX_VALUES = 100_000
"""Values that a settings file may hold, those that its aliases repeat counted each time."""
MAX_DEPTH = 50

Locations = dict[str, str]
"""Key, as in `push.keep_versions` or `export.formats[0]`, to where it was given."""

# What the constructors of PyYAML raise for a scalar that does not fit its tag, such as `!!int abc`.
_BAD_SCALAR = (ValueError, TypeError, KeyError, AttributeError, OverflowError, binascii.Error)


# libyaml's parser reads a hundred times faster, where PyYAML was built with it.
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_SafeLoader):
    """A safe loader that refuses a key given twice, of which the last would win in silence."""

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep=deep)
        except _BAD_SCALAR as error:
            kind = str(node.tag).rpartition(":")[2]
            problem = f"expected a value of the kind {kind}, found {str(node.value)[:60]!r}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            text = str(key.value)
            if text in seen:
                problem = f"the key {text[:60]!r} is given twice; remove one"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(text)
        return super().construct_mapping(node, deep=deep)


def read_settings_text(path: str, what: str = "settings file") -> str:
    """Return the text of a settings file, or of another one written in YAML.

    Args:
        path: of the file.
        what: it is, for messages.

    Raises:
        ConfigError: when it cannot be read, is no regular file, or is too large to be settings.
    """
    if files.is_remote(path):
        return read_message_text(path, what=what)
    try:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            raise ConfigError("expected a file, found something else; check the path", where=path)
        if found.st_size > MAX_BYTES:
            raise ConfigError(
                f"expected a {what} of at most {MAX_BYTES:,} bytes, found {found.st_size:,}; check the path",
                where=path,
            )
        with open(path, encoding="utf-8-sig") as file:
            return file.read()
    except (OSError, ValueError) as e:  # a path with NUL, text that is not UTF-8
        raise ConfigError(f"cannot read the {what} ({e}); check the path", where=path) from e


def parse_settings_text(text: str, where: str) -> tuple[Any, Locations]:
    """Parse one YAML document.

    Args:
        text: the document.
        where: file or option that it came from, for errors.

    Returns:
        Its values, in which an alias is a value of its own, so that changing one leaves the other; and where
        each key stands.

    Raises:
        ConfigError: naming the line of what is no YAML, of a key given twice, or of a value that does not
            fit its tag; when values are nested too deeply or hold themselves, or aliases unfold to too many.
    """
    with _loading(text, where) as loader:
        node = loader.get_single_node()
        if node is None:
            return None, {}
        _refuse_size(node, where, MAX_VALUES)
        return _unshared(loader.construct_document(node)), dict(_locations(node, where))


def parse_documents(text: str, where: str, most: int = MAX_VALUES) -> list[Any]:
    """Parse any number of YAML documents.

    Args:
        text: the documents.
        where: file that they came from, for errors.
        most: values that one of them may hold.

    Raises:
        ConfigError: as `parse_settings_text`.
    """
    documents = []
    with _loading(text, where) as loader:
        while loader.check_node():
            node = loader.get_node()
            if node is not None:
                _refuse_size(node, where, most)
                documents.append(_unshared(loader.construct_document(node)))
    return documents


@contextlib.contextmanager
def _loading(text: str, where: str) -> Iterator[_Loader]:
    loader = None
    try:
        _refuse_depth(text, where)
        loader = _Loader(text)
        yield loader
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        position = f"{where}:{mark.line + 1}" if mark else where
        problem = str(getattr(e, "problem", None) or e)[:300]
        raise ConfigError(f"not valid YAML: {problem}", where=position) from e
    finally:
        if loader is not None:
            loader.dispose()


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _refuse_depth(text: str, where: str) -> None:
    """Refuse deep nesting before it is composed, which takes a frame of the stack for each level."""
    depth = 0
    for event in yaml.parse(text, Loader=_SafeLoader):
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > MAX_DEPTH:
            message = f"expected values nested at most {MAX_DEPTH} deep, found more"
            mark = event.start_mark
            raise ConfigError(message, where=f"{where}:{mark.line + 1}" if mark else where)


def _refuse_size(root: yaml.Node, where: str, most: int) -> None:
    """Count values and depth as the aliases unfold, each node once, and refuse what is too much."""
    sizes: dict[int, tuple[int, int]] = {}
    open_nodes: set[int] = set()

    def measure(node: yaml.Node) -> tuple[int, int]:
        if id(node) in open_nodes:
            raise ConfigError("expected no mapping that holds itself, by an alias", where=where)
        if id(node) not in sizes:
            open_nodes.add(id(node))
            inner = [measure(child) for child in _children(node)]
            open_nodes.discard(id(node))
            depth = 1 + max((depth for _, depth in inner), default=0)
            sizes[id(node)] = (1 + sum(count for count, _ in inner), depth)
        return sizes[id(node)]

    count, depth = measure(root)
    if depth > MAX_DEPTH:
        raise ConfigError(f"expected values nested at most {MAX_DEPTH} deep, found {depth}", where=where)
    if count > most:
        raise ConfigError(
            f"expected at most {most:,} values, those that aliases repeat counted each time, found"
            f" {count:,}; write less, or fewer aliases of aliases",
            where=where,
        )


def _locations(node: yaml.Node, where: str, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield where each key below a node stands; a merged mapping's keys stand where it is."""
    if isinstance(node, yaml.MappingNode):
        children = [(f"{key}.{name.value}".lstrip("."), name, child) for name, child in node.value]
    elif isinstance(node, yaml.SequenceNode):
        children = [(f"{key}[{i}]", child, child) for i, child in enumerate(node.value)]
    else:
        return
    for path, marked, child in children:
        yield path, f"{where}:{marked.start_mark.line + 1}"
        yield from _locations(child, where, path)


def _unshared(node: Any) -> Any:
    """Return a copy in which an alias is a node of its own, so that changing one leaves the other."""
    if isinstance(node, dict):
        return {key: _unshared(value) for key, value in node.items()}
    return [_unshared(item) for item in node] if isinstance(node, list) else node
