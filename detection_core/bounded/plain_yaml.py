"""The only YAML parser: plain values, the position of each key, and limits on aliases.

libyaml reads the events. Depth and values are counted first, so a document over the limits is refused before
it is in memory. What aliases repeat is counted before it is copied.
"""

import contextlib
import itertools
import os
from collections.abc import Iterator
from typing import Any, ClassVar, NoReturn

import yaml

from detection_core.bounded.limits import MAX_DEPTH, MAX_VALUES
from detection_core.errors import ConfigError, DetectionError, shorten
from detection_core.storage import files
from detection_core.storage.files import MAX_TEXT_BYTES

Locations = dict[str, str]
"""Maps a key, such as `push.keep_versions` or `export.formats[0]`, to its position."""

_PREFIX = "tag:yaml.org,2002:"
_MERGE, _TUPLE = f"{_PREFIX}merge", f"{_PREFIX}python/tuple"
_LONGEST_NUMBER = 80
"""Characters of a number: more than a float's precision needs, and too few to overflow it."""

_NULLS = dict.fromkeys(("~", "null", "Null", "NULL", ""))
_CONSTRUCTOR = yaml.constructor.SafeConstructor()
_SCALARS: dict[str, Any] = {
    "bool": _CONSTRUCTOR.construct_yaml_bool,
    "int": _CONSTRUCTOR.construct_yaml_int,
    "float": _CONSTRUCTOR.construct_yaml_float,
    "null": lambda node: _NULLS[node.value],
}
# Errors that PyYAML's constructors raise for a scalar that does not fit its tag, such as `!!int abc`.
_BAD_SCALAR = (ValueError, TypeError, LookupError, AttributeError, OverflowError)


# libyaml's parser is a hundred times faster, if PyYAML was built with it.
class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Leaves unquoted dates, and "=", formerly a default value in YAML, as text."""

    yaml_implicit_resolvers: ClassVar[dict[Any, Any]] = {
        first: [(tag, regexp) for tag, regexp in found if not tag.endswith((":timestamp", ":value"))]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


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
    reader = _Reader(where, error, tuples)
    return reader.value(reader.document(text))


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
    reader = _Reader(where)
    node = reader.document(text)
    return reader.value(node), {"": where} | dict(reader.locations(node))


def parse_yaml_documents(text: str, where: str) -> list[Any]:
    """Parse any number of YAML documents like `parse_yaml`; they share the limits of one document."""
    reader = _Reader(where)
    return [reader.value(node) for node in reader.documents(text)]


class _Reader:
    def __init__(self, where: str, error: type[DetectionError] = ConfigError, tuples: bool = False) -> None:
        self._where, self._error, self._tuples = where, error, tuples

    def document(self, text: str) -> yaml.Node | None:
        nodes = self.documents(text)
        if len(nodes) > 1:
            raise self._error("expected one YAML document, found several; keep one", where=self._where)
        return nodes[0] if nodes else None

    def documents(self, text: str) -> list[yaml.Node]:
        try:
            self._count(text)
            nodes = list(yaml.compose_all(text, Loader=_Loader))
        except (yaml.YAMLError, UnicodeError) as e:
            problem = " ".join(str(getattr(e, "problem", None) or e).split())[:300]
            raise self._refusal(getattr(e, "problem_mark", None), f"not valid YAML: {problem}") from e
        sizes: dict[int, tuple[int, int, int] | None] = {}
        values = characters = 0
        for node in nodes:
            size = self._measure(node, sizes)
            values, characters = values + size[1], characters + size[2]
            self._check(node, size[0], values, characters)
        return nodes

    def _refusal(self, mark: Any, problem: str) -> DetectionError:
        where = f"{self._where}:{mark.line + 1}:{mark.column + 1}" if mark else self._where
        return self._error(problem, where=where)

    def _refuse(self, node: Any, problem: str) -> NoReturn:
        raise self._refusal(node.start_mark, problem)

    def _count(self, text: str) -> None:
        """Refuse a text of too much depth or too many values."""
        depth = values = 0
        for event in yaml.parse(text, Loader=_Loader):
            if isinstance(event, yaml.NodeEvent):
                values += 1
                depth += isinstance(event, yaml.CollectionStartEvent)
                self._check(event, depth + isinstance(event, yaml.ScalarEvent), values, 0)
            depth -= isinstance(event, yaml.CollectionEndEvent)

    def _check(self, node: Any, depth: int, values: int, characters: int) -> None:
        if depth > MAX_DEPTH:
            self._refuse(node, f"expected values nested at most {MAX_DEPTH} deep, found more")
        for found, most, what in ((values, MAX_VALUES, "values"), (characters, MAX_TEXT_BYTES, "characters")):
            if found > most:
                self._refuse(
                    node,
                    f"expected at most {most:,} {what}, those that aliases repeat counted each time, found"
                    " more; write less, or fewer aliases of aliases",
                )

    def _measure(
        self, node: yaml.Node, known: dict[int, tuple[int, int, int] | None]
    ) -> tuple[int, int, int]:
        """Return height, values and characters of a node; `known` has None for an incomplete one."""
        if id(node) in known:
            size = known[id(node)]
            if size is None:
                self._refuse(node, "expected no value that holds itself, by an alias")
            return size
        known[id(node)] = None
        height, values, characters, children = 0, 1, 0, node.value
        if isinstance(node, yaml.ScalarNode):
            characters, children = len(node.value), ()
        elif isinstance(node, yaml.MappingNode):
            children = itertools.chain.from_iterable(node.value)
        for child in children:
            below = self._measure(child, known)
            height, values, characters = max(height, below[0]), values + below[1], characters + below[2]
        self._check(node, height + 1, values, characters)
        known[id(node)] = size = height + 1, values, characters
        return size

    def value(self, node: yaml.Node | None) -> Any:
        """Return a new copy of a node's value; None without a node."""
        if node is None:
            return None
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if isinstance(node, yaml.MappingNode):
            return {name: self.value(child) for name, (_, child) in self._pairs(node).items()}
        is_tuple = self._tuples and node.tag == _TUPLE
        if node.tag != f"{_PREFIX}seq" and not is_tuple:
            self._refuse_tag(node)
        return (tuple if is_tuple else list)(map(self.value, node.value))

    def locations(self, node: yaml.Node | None, key: str = "") -> Iterator[tuple[str, str]]:
        """Yield the position of each key below a node; keys of a merged mapping keep their position there."""
        children: list[tuple[str, yaml.Node, yaml.Node]] = []
        if isinstance(node, yaml.MappingNode):
            pairs = self._pairs(node).items()
            children = [(f"{key}.{name}".lstrip("."), at, child) for name, (at, child) in pairs]
        elif isinstance(node, yaml.SequenceNode):
            children = [(f"{key}[{i}]", child, child) for i, child in enumerate(node.value)]
        for path, at, child in children:
            yield path, f"{self._where}:{at.start_mark.line + 1}"
            yield from self.locations(child, path)

    def _pairs(self, node: yaml.MappingNode) -> dict[Any, tuple[yaml.Node, yaml.Node]]:
        """Return key to the nodes of key and value, with those of the mappings that `<<` names."""
        if node.tag != f"{_PREFIX}map":
            self._refuse_tag(node)
        own: dict[Any, tuple[yaml.Node, yaml.Node]] = {}
        merged: dict[Any, tuple[yaml.Node, yaml.Node]] = {}
        for key, child in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self._refuse(key, "expected a text or a number as key, found a list or a mapping")
            name = self._scalar(key)
            if key.tag == _MERGE and not merged:
                for other in child.value if isinstance(child, yaml.SequenceNode) else [child]:
                    if not isinstance(other, yaml.MappingNode):
                        self._refuse(child, "expected a mapping, or a list of mappings, to merge")
                    for each, pair in self._pairs(other).items():
                        merged.setdefault(each, pair)
            elif name in own:
                self._refuse(key, f"the key {shorten(name)} is given twice; remove one")
            else:
                own[name] = key, child
        return {**merged, **own}

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        text, kind = node.value, node.tag.removeprefix(_PREFIX)
        if kind == "str" or node.tag == _MERGE:
            return text
        if node.tag == kind or kind not in _SCALARS:
            self._refuse_tag(node)
        if len(text) <= _LONGEST_NUMBER:
            with contextlib.suppress(*_BAD_SCALAR):
                return _SCALARS[kind](node)
        elif not node.style and not text.isdecimal():
            return text
        self._refuse(node, f"expected a value of the kind {kind}, found {shorten(text)}")

    def _refuse_tag(self, node: yaml.Node) -> NoReturn:
        tag = node.tag.replace(_PREFIX, "!!", 1)
        self._refuse(node, f"expected a plain value, found the tag {shorten(tag)}; remove it")
