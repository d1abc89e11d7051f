import os

from detection_core.datasets.annotated_images import Rejected
from detection_core.datasets.formats import xml_files
from detection_core.datasets.formats.xml_files import parse_xml, read_children
from tests.support.cases import cases, refused
from tests.support.dataset_files import write_files
from tests.support.memory import memory_below

BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><x>&b;</x>'
OUTSIDE = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><x>&a;</x>'


def _parse(root, data):
    write_files(root, {"a.xml": data})
    return parse_xml(str(root / "a.xml"))


@cases(
    (BOMB, "document type"), (OUTSIDE, "document type"), (BOMB.encode("utf-16"), "document type"),
    ("<x>", "cannot be parsed"), ("", "cannot be parsed"),
    ('<?xml version="1.0" encoding="none"?><x/>', "encoding"),
)  # fmt: skip
def test_what_is_not_plain_xml_is_refused(tmp_path, *, data, said):
    assert refused(Rejected, said, _parse, tmp_path, data).reason == "unreadable_annotation"


def test_plain_xml_is_parsed_and_a_missing_sparse_file_or_a_pipe_has_a_reason(tmp_path):
    assert _parse(tmp_path, "<x><y>1</y></x>").findtext("y") == "1"
    refused(Rejected, "no such file", parse_xml, str(tmp_path / "b.xml"))
    os.mkfifo(tmp_path / "pipe")
    refused(Rejected, "regular file", parse_xml, str(tmp_path / "pipe"))
    os.truncate(tmp_path / "a.xml", 5 * 2**30)
    error = refused(Rejected, "at most 16,777,216 bytes", parse_xml, str(tmp_path / "a.xml"))
    assert error.reason == "unreadable_annotation"


def _tags(path):
    seen = []
    return [(e.tag, e.attrib, [c.tag for c in e]) for e in read_children(str(path), seen.append)], seen


@cases(1, 7, 1 << 20)
def test_children_come_one_by_one_with_all_that_is_in_them(tmp_path, monkeypatch, *, piece):
    monkeypatch.setattr(xml_files, "_PIECE", piece)
    (tmp_path / "a.xml").write_text('<r><a n="1"><r/><a><b/></a></a> text <b/><!-- c --><a n="2"/></r>')
    children = [("a", {"n": "1"}, ["r", "a"]), ("b", {}, []), ("a", {"n": "2"}, [])]
    assert _tags(tmp_path / "a.xml") == (children, ["r"])


@cases(
    (BOMB, "document type"), ("<r><a/>", "cannot be parsed"), ("<r><a/></r><r/>", "cannot be parsed"),
    ("", "cannot be parsed"), ("<r " + "x" * 300, "in which no element begins"),
    ("<r>" + "x" * 300 + "</r>", "in which no element begins"),
)  # fmt: skip
def test_children_of_what_is_not_plain_xml_are_refused(tmp_path, monkeypatch, *, text, said):
    monkeypatch.setattr(xml_files, "_PIECE", 50)
    monkeypatch.setattr(xml_files, "MAX_SILENCE", 100)
    (tmp_path / "a.xml").write_text(text)
    refused(Rejected, said, _tags, tmp_path / "a.xml")
    refused(Rejected, "no such file", _tags, tmp_path / "b.xml")


def test_memory_does_not_grow_with_the_children_and_their_elements_have_a_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(xml_files, "_PIECE", 1 << 14)
    path = tmp_path / "a.xml"
    path.write_text("<r>" + f'<a n="{"x" * 100}"><b/><b/></a>' * 20_000 + "</r>")
    with memory_below(path.stat().st_size // 2):
        assert sum(1 for _ in read_children(str(path), str)) == 20_000
    monkeypatch.setattr(xml_files, "MAX_ELEMENTS", 100)
    _parse(tmp_path, f"<x><z>{'<y></y>' * 90}</z></x>")
    assert len(_tags(tmp_path / "a.xml")[0]) == 1
    write_files(tmp_path, {"a.xml": f"<x><z>{'<y/>' * 300}</z></x>"})
    for read in (parse_xml, _tags):
        refused(Rejected, "at most 100 elements of an image", read, str(tmp_path / "a.xml"))
