"""Parses XML annotation files safely."""

import collections
import contextlib
from collections.abc import Callable, Iterator
from typing import Any, cast
from xml.etree import ElementTree
from xml.parsers import expat

from detection_core.bounded.limits import MAX_ELEMENTS
from detection_core.datasets.annotated_images import Rejected, open_annotation, read_annotation

MAX_SILENCE = 1 << 24
"""Bytes without a new element after which parsing stops: an endless attribute or text."""

_PIECE = 1 << 18


class _PlainTree(ElementTree.TreeBuilder):
    """Rejects document types, with which a small file can expand to a huge one."""

    def doctype(self, name: str, public: str | None, system: str | None) -> None:
        raise Rejected("unreadable_annotation", f"expected plain XML, found the document type {name!r:.80}")


def parse_xml(path: str) -> ElementTree.Element:
    """Return the root of an XML file without a document type; Rejected if missing or malformed."""
    data = read_annotation(path)
    _check_elements(data.count(b"<") // 2)
    with _rejected():
        return ElementTree.fromstring(data, ElementTree.XMLParser(target=_PlainTree()))


def _check_elements(count: int) -> None:
    if count > MAX_ELEMENTS:
        detail = f"expected at most {MAX_ELEMENTS:,} elements of an image, found more"
        raise Rejected("unreadable_annotation", detail)


@contextlib.contextmanager
def _rejected() -> Iterator[None]:
    try:
        yield
    except (ElementTree.ParseError, expat.ExpatError, ValueError, LookupError) as e:
        raise Rejected("unreadable_annotation", f"the XML cannot be parsed: {e}") from e


def read_children(path: str, check_root: Callable[[str], None]) -> Iterator[ElementTree.Element]:
    """Yield each element below the root of an XML file at its end tag; document types are rejected.

    `check_root` is called with the root's tag, and raises an error for another kind of file.

    Raises:
        Rejected: if the file is missing or cannot be parsed.
    """
    parser: ElementTree.XMLPullParser[ElementTree.Element] = ElementTree.XMLPullParser(["start"])
    # A document type can only precede the root.
    prolog = expat.ParserCreate()
    prolog.StartDoctypeDeclHandler = lambda name, *_: _PlainTree().doctype(name, None, None)
    root: ElementTree.Element | None = None
    silent = held = 0
    with open_annotation(path) as file:
        while data := file.read(_PIECE):
            with _rejected():
                if root is None:
                    prolog.Parse(data, False)
                parser.feed(data)
                begun = [cast(Any, event)[1] for event in parser.read_events()]
            if root is None and begun:
                root = begun[0]
                check_root(root.tag)
            silent = 0 if begun else silent + len(data)
            if silent > MAX_SILENCE:
                detail = f"the XML has more than {MAX_SILENCE:,} bytes in which no element begins"
                raise Rejected("unreadable_annotation", detail)
            held += len(begun)
            if root is not None and len(root) > 1:
                # The last element may be incomplete.
                ended = root[:-1]
                del root[:-1]
                held = 0
                yield from ended
            _check_elements(held)
    with _rejected():
        parser.close()
        collections.deque(parser.read_events(), maxlen=0)  # raises errors at the file's end
    yield from root if root is not None else ()
