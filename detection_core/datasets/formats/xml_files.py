"""XML files of annotations, parsed without what makes XML dangerous."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from xml.etree import ElementTree

from detection_core.datasets.annotated_images import Rejected, open_annotation, read_annotation

MAX_SILENCE = 1 << 26
"""Bytes without the end of an element above which a file is not read on: one endless attribute or text."""

_PIECE = 1 << 18


class _PlainTree(ElementTree.TreeBuilder):
    """Refuses document types, with which a small file can expand to a huge one."""

    def doctype(self, name: str, public: str | None, system: str | None) -> None:
        raise Rejected("unreadable_annotation", f"expected plain XML, found the document type {name!r:.80}")


def parse_xml(path: str) -> ElementTree.Element:
    """Return the root element of an XML file without a document type.

    Raises:
        Rejected: when there is no such file, or it cannot be parsed.
    """
    data = read_annotation(path)
    with _rejected():
        return ElementTree.fromstring(data, ElementTree.XMLParser(target=_PlainTree()))


@contextlib.contextmanager
def _rejected() -> Iterator[None]:
    try:
        yield
    except (ElementTree.ParseError, ValueError, LookupError) as e:
        raise Rejected("unreadable_annotation", f"the XML cannot be parsed: {e}") from e


class _Children(_PlainTree):
    """Hands over the elements below the root, and forgets them.

    Attributes:
        ready: those that have ended since they were taken.
        ended: how many elements of any depth have ended.
    """

    def __init__(self, check_root: Callable[[str], None]) -> None:
        super().__init__()
        self.ready: list[ElementTree.Element] = []
        self.ended = 0
        self._check_root = check_root
        self._open: list[ElementTree.Element] = []

    def start(self, tag: str, attrs: dict[str, str], /) -> ElementTree.Element:
        element = super().start(tag, attrs)
        if not self._open:
            self._check_root(tag)
        self._open.append(element)
        return element

    def end(self, tag: str, /) -> ElementTree.Element:
        element = super().end(tag)
        self._open.pop()
        self.ended += 1
        if len(self._open) == 1:
            self.ready.append(element)
            self._open[0].clear()
        return element


def read_children(path: str, check_root: Callable[[str], None]) -> Iterator[ElementTree.Element]:
    """Yield the elements below the root of an XML file without a document type, each when it has ended.

    Args:
        path: of the file, local or remote.
        check_root: called with the root's tag; it raises what is to be said of another file.

    Raises:
        Rejected: when there is no such file, or it cannot be parsed.
    """
    tree = _Children(check_root)
    parser = ElementTree.XMLParser(target=tree)
    silent = ended = 0
    with open_annotation(path) as file:
        while data := file.read(_PIECE):
            with _rejected():
                parser.feed(data)
            silent, ended = (0 if tree.ended > ended else silent + len(data)), tree.ended
            if silent > MAX_SILENCE:
                detail = f"the XML has more than {MAX_SILENCE:,} bytes in which no element ends"
                raise Rejected("unreadable_annotation", detail)
            ready, tree.ready = tree.ready, []
            yield from ready
    with _rejected():
        parser.close()
    yield from tree.ready
