"""The only YAML parser: plain values, the position of each key, and limits on aliases.

libyaml reads the events. Depth, values and characters are counted meanwhile, so a document over the limits is
refused before it is in memory.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

import yaml

from detection_core.bounded.limits import MAX_DEPTH, MAX_VALUES
from detection_core.errors import ConfigError, DetectionError, shorten
from detection_core.storage import files
from detection_core.storage.files import MAX_TEXT_BYTES

Locations = dict[str, str]
"""Maps a key, such as `push.keep_versions` or `export.formats[0]`, to its position."""

# libyaml's parser is a hundred times faster, if PyYAML was built with it.
_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PREFIX = "tag:yaml.org,2002:"
_MERGE, _TUPLE = "<<", f"{_PREFIX}python/tuple"
_LONGEST_NUMBER = 80
"""Characters of a number: more than a float's precision needs, and too few to overflow it."""

_NULL = re.compile(r"~|null|Null|NULL|")
_CONSTRUCTOR = yaml.constructor.SafeConstructor()
_SCALARS: dict[str, Any] = {
    "bool": _CONSTRUCTOR.construct_yaml_bool,
    "int": _CONSTRUCTOR.construct_yaml_int,
    "float": _CONSTRUCTOR.construct_yaml_float,
}
# Errors that PyYAML's constructors raise for a scalar that does not fit its tag, such as `!!int abc`.
_BAD_SCALAR = (ValueError, TypeError, LookupError, AttributeError, OverflowError)


def parse_yaml(
    text: str, where: str, *, error: type[DetectionError] = ConfigError, tuples: bool = False
) -> Any:
    """Parse one YAML document of plain values.

    Dates stay text. Each alias is a separate copy.

    Args:
        text: the document.
        where: file or option of the document, for errors.
        error: class of the errors raised.
        tuples: whether to accept `!!python/tuple`, which PyYAML writes for an image size.

    Returns:
        Its value; None for an empty document.

    Raises:
        DetectionError: of the class `error`, with line and column. Causes: invalid YAML, a duplicate or
            non-scalar key, a value that does not fit its tag. Also a tag of other than plain values, and too
            much depth, or too many values or characters. Aliases count each time.
    """
    node = _Document(text, where, error, tuples).single()
    return None if node is None else _value(node)


def read_yaml(path: str, *, what: str) -> Any:
    """Read a YAML file like `parse_yaml`; errors call it `what`, such as "file of overrides"."""
    return parse_yaml(files.read_user_text(path, what=what), path)


def module_table(module: str) -> Any:
    """Return the content of the YAML file that has a module's name and lies beside it.

    Args:
        module: the module's `__file__`.
    """
    return read_yaml(os.path.splitext(module)[0] + ".yaml", what="table of this package")


def parse_yaml_with_lines(text: str, where: str) -> tuple[Any, Locations]:
    """Parse one YAML document like `parse_yaml`.

    Returns:
        Its value, and the position of each key; that of the key "" is `where`.
    """
    node = _Document(text, where, ConfigError, False).single()
    if node is None:
        return None, {"": where}
    return _value(node), {"": where} | dict(_locations(node, where))


def parse_yaml_documents(text: str, where: str) -> list[Any]:
    """Parse any number of YAML documents like `parse_yaml`; they share the limits of one document."""
    return [_value(node) for node in _Document(text, where, ConfigError, False).all()]


class _Node(NamedTuple):
    """A node of a document.

    Attributes:
        line: from 1.
        value: of a scalar; the nodes of a list or tuple; for a mapping, key to its line and node.
        height: levels of nodes, 1 for a scalar.
        values: number of nodes, those that aliases repeat counted each time.
        characters: of its scalars, likewise.
    """

    line: int
    value: Any
    height: int
    values: int
    characters: int


_Pairs = dict[Any, tuple[int, _Node]]
_CONTAINERS = (dict, list, tuple)


class _Document:
    def __init__(self, text: str, where: str, error: type[DetectionError], tuples: bool) -> None:
        self._where, self._error, self._tuples = where, error, tuples
        self._text = text
        self._parser: Any = None
        self._known: dict[str, _Node | None] = {}  # None while the node is incomplete
        self._values = self._characters = 0

    def single(self) -> _Node | None:
        nodes = self.all()
        node = next(nodes, None)
        if next(nodes, None) is not None:
            raise self._error("expected one YAML document, found several; keep one", where=self._where)
        return node

    def all(self) -> Iterator[_Node]:
        with self._loading():
            self._parser.get_event()
            while not self._parser.check_event(yaml.StreamEndEvent):
                self._parser.get_event()
                self._known.clear()
                yield self._node(1)
                self._parser.get_event()

    @contextlib.contextmanager
    def _loading(self) -> Iterator[None]:
        try:
            self._parser = _PARSER(self._text)
            yield
        except (yaml.YAMLError, UnicodeError) as e:
            mark = getattr(e, "problem_mark", None)
            position = f"{self._where}:{mark.line + 1}:{mark.column + 1}" if mark else self._where
            problem = " ".join(str(getattr(e, "problem", None) or e).split())[:300]
            raise self._error(f"not valid YAML: {problem}", where=position) from e
        finally:
            if self._parser is not None:
                self._parser.dispose()

    def _refuse(self, event: Any, problem: str) -> NoReturn:
        mark = event.start_mark
        raise self._error(problem, where=f"{self._where}:{mark.line + 1}:{mark.column + 1}")

    def _node(self, depth: int) -> _Node:
        event: Any = self._parser.get_event()
        if isinstance(event, yaml.AliasEvent):
            return self._repeated(event, depth)
        values, characters = self._values, self._characters
        self._use(event, depth, 1, len(getattr(event, "value", "")))
        if event.anchor:
            self._known[event.anchor] = None
        if isinstance(event, yaml.ScalarEvent):
            value, height = self._scalar(event), 1
        elif isinstance(event, yaml.SequenceStartEvent):
            value, height = self._list(event, depth)
        else:
            value, height = self._map(event, depth)
        line = event.start_mark.line + 1
        node = _Node(line, value, height, self._values - values, self._characters - characters)
        if event.anchor:
            self._known[event.anchor] = node
        return node

    def _use(self, event: Any, depth: int, values: int, characters: int) -> None:
        self._values += values
        self._characters += characters
        if depth > MAX_DEPTH:
            self._refuse(event, f"expected values nested at most {MAX_DEPTH} deep, found more")
        if self._values > MAX_VALUES:
            self._refuse(
                event,
                f"expected at most {MAX_VALUES:,} values, those that aliases repeat counted each time, found"
                " more; write less, or fewer aliases of aliases",
            )
        if self._characters > MAX_TEXT_BYTES:
            self._refuse(
                event,
                f"expected values of at most {MAX_TEXT_BYTES:,} characters in all, those that aliases repeat"
                " counted each time, found more; write less, or fewer aliases",
            )

    def _repeated(self, event: Any, depth: int) -> _Node:
        if event.anchor not in self._known:
            self._refuse(event, f"not valid YAML: no anchor {shorten(event.anchor)} stands before its alias")
        node = self._known[event.anchor]
        if node is None:
            self._refuse(event, "expected no value that holds itself, by an alias")
        self._use(event, depth + node.height - 1, node.values, node.characters)
        return node

    def _children(self, depth: int, end: type[Any]) -> Iterator[tuple[_Node, Any]]:
        while not self._parser.check_event(end):
            event = self._parser.peek_event()
            yield self._node(depth + 1), event
        self._parser.get_event()

    def _list(self, event: Any, depth: int) -> tuple[Sequence[_Node], int]:
        is_tuple = self._tuples and event.tag == _TUPLE
        if event.tag not in (None, "!", f"{_PREFIX}seq") and not is_tuple:
            self._refuse_tag(event)
        items = [node for node, _ in self._children(depth, yaml.SequenceEndEvent)]
        height = 1 + max((node.height for node in items), default=0)
        return tuple(items) if is_tuple else items, height

    def _map(self, event: Any, depth: int) -> tuple[_Pairs, int]:
        if event.tag not in (None, "!", f"{_PREFIX}map"):
            self._refuse_tag(event)
        own: _Pairs = {}
        merged: _Pairs = {}
        height = 1
        children = self._children(depth, yaml.MappingEndEvent)
        for key, key_event in children:
            node, value_event = next(children)
            height = max(height, node.height + 1)
            if isinstance(key.value, _CONTAINERS):
                self._refuse(key_event, "expected a text or a number as key, found a list or a mapping")
            is_plain = isinstance(key_event, yaml.ScalarEvent) and key_event.implicit[0]
            if key.value == _MERGE and is_plain and not merged:
                merged = self._merged(node, value_event)
            elif key.value in own:
                self._refuse(key_event, f"the key {shorten(key.value)} is given twice; remove one")
            else:
                own[key.value] = key.line, node
        return {**merged, **own}, height

    def _merged(self, node: _Node, event: Any) -> _Pairs:
        """Return the pairs of the mappings that `<<` names; the first of duplicate keys counts."""
        found: _Pairs = {}
        for other in node.value if isinstance(node.value, list | tuple) else [node]:
            if not isinstance(other.value, dict):
                self._refuse(event, "expected a mapping, or a list of mappings, to merge")
            for key, pair in other.value.items():
                found.setdefault(key, pair)
        return found

    def _scalar(self, event: Any) -> Any:
        text = event.value
        tag = event.tag
        if tag in (None, "!"):
            if not event.implicit[0] or len(text) > _LONGEST_NUMBER:
                return text if event.style or not text.isdecimal() else self._unfit(event, "number")
            tag = self._parser.resolve(yaml.ScalarNode, text, event.implicit)
            # An unquoted date is text, and so is "=", formerly a default value in YAML.
            kind = tag.removeprefix(_PREFIX)
            kind = kind if kind in (*_SCALARS, "null") else "str"
        else:
            kind = tag.removeprefix(_PREFIX) if tag.startswith(_PREFIX) else ""
        if kind == "str":
            return text
        if kind == "null":
            return None if _NULL.fullmatch(text) else self._unfit(event, kind)
        if kind not in _SCALARS:
            self._refuse_tag(event)
        if len(text) > _LONGEST_NUMBER:
            self._unfit(event, kind)
        try:
            return _SCALARS[kind](yaml.ScalarNode(tag, text))
        except _BAD_SCALAR:
            self._unfit(event, kind)

    def _unfit(self, event: Any, kind: str) -> NoReturn:
        self._refuse(event, f"expected a value of the kind {kind}, found {shorten(event.value)}")

    def _refuse_tag(self, event: Any) -> NoReturn:
        tag = str(event.tag).replace(_PREFIX, "!!", 1)
        self._refuse(event, f"expected a plain value, found the tag {shorten(tag)}; remove it")


def _value(node: _Node) -> Any:
    """Return a new copy of the node's value."""
    if isinstance(node.value, dict):
        return {key: _value(child) for key, (_, child) in node.value.items()}
    if isinstance(node.value, list | tuple):
        return type(node.value)(map(_value, node.value))
    return node.value


def _locations(node: _Node, where: str, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield the position of each key below a node; keys of a merged mapping keep their position there."""
    children = []
    if isinstance(node.value, dict):
        children = [(f"{key}.{name}".lstrip("."), line, child) for name, (line, child) in node.value.items()]
    elif isinstance(node.value, list | tuple):
        children = [(f"{key}[{i}]", child.line, child) for i, child in enumerate(node.value)]
    for path, line, child in children:
        yield path, f"{where}:{line}"
        yield from _locations(child, where, path)
