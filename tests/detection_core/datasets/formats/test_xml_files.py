import os

import pytest

from detection_core.datasets.annotated_images import Rejected
from detection_core.datasets.formats.xml_files import parse_xml

BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><x>&b;</x>'
OUTSIDE = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><x>&a;</x>'


@pytest.mark.parametrize(
    ("data", "said"),
    [(BOMB, "document type"), (OUTSIDE, "document type"), (BOMB.encode("utf-16"), "document type"),
     ("<x>", "cannot be parsed"), ("", "cannot be parsed"),
     ('<?xml version="1.0" encoding="none"?><x/>', "encoding")],
)  # fmt: skip
def test_what_is_not_plain_xml_is_refused(tmp_path, data, said):
    (tmp_path / "a.xml").write_bytes(data if isinstance(data, bytes) else data.encode())
    with pytest.raises(Rejected, match=said) as caught:
        parse_xml(str(tmp_path / "a.xml"))
    assert caught.value.reason == "unreadable_annotation"


def test_plain_xml_is_parsed_and_a_missing_file_or_a_pipe_has_a_reason(tmp_path):
    (tmp_path / "a.xml").write_text("<x><y>1</y></x>")
    assert parse_xml(str(tmp_path / "a.xml")).findtext("y") == "1"
    with pytest.raises(Rejected, match="no such file"):
        parse_xml(str(tmp_path / "b.xml"))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Rejected, match="regular file"):
        parse_xml(str(tmp_path / "pipe"))
