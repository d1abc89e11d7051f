"""XML files of annotations, parsed without what makes XML dangerous."""

from __future__ import annotations

from xml.etree import ElementTree

from detection_core.datasets.annotated_images import Rejected, read_annotation


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
    try:
        return ElementTree.fromstring(data, ElementTree.XMLParser(target=_PlainTree()))
    except (ElementTree.ParseError, ValueError, LookupError) as e:
        raise Rejected("unreadable_annotation", f"the XML cannot be parsed: {e}") from e
