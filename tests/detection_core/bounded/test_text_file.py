"""Text files within bounds."""

import io
import os

import pytest

from detection_core.bounded import text_file
from detection_core.bounded.limits import MAX_TEXT_BYTES
from detection_core.bounded.text_file import read_lines, read_text_file
from detection_core.errors import ConfigError, DataError
from detection_core.storage import files


def test_what_is_no_text_file_is_one_error(tmp_path):
    (tmp_path / "latin").write_bytes("name: café".encode("latin-1"))
    (tmp_path / "null").write_bytes(b"name: a\0b")
    os.mkfifo(tmp_path / "pipe")
    os.symlink("loop", tmp_path / "loop")
    with open(tmp_path / "large", "wb") as f:
        f.truncate(5 * 2**30)  # sparse
    for path, message in (
        (tmp_path / "none", "cannot read the settings file .*No such file"),
        (tmp_path / "loop", "cannot read the settings file"),
        (tmp_path / "latin", "expected a settings file in text format, found bytes that are not UTF-8"),
        (tmp_path / "null", "in text format, found null characters"),
        ("a\0b", "which no file can have"),
        (tmp_path, "found no regular file"),
        (tmp_path / "pipe", "found no regular file"),
        ("/dev/zero", "found no regular file"),
        (tmp_path / "large", f"a settings file of at most {MAX_TEXT_BYTES:,} bytes, found 5,368,709,120"),
    ):
        with pytest.raises(ConfigError, match=message) as caught:
            read_text_file(str(path), what="settings file")
        assert "\n" not in str(caught.value)


def test_a_byte_order_mark_is_no_text_and_a_longer_file_may_be_allowed(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(b"\xef\xbb\xbfmodel { }")
    assert read_text_file(str(path), what="pipeline.config") == "model { }"
    path.write_text("12345")
    assert read_text_file(str(path), what="list", longest=5) == "12345"
    with pytest.raises(ConfigError, match="at most 4 bytes, found 5"):
        read_text_file(str(path), what="list", longest=4)
    monkeypatch.setattr(files, "open_file", lambda path, mode: io.BytesIO(b"x" * 100))
    assert len(read_text_file("s3://bucket/a.txt", what="list", longest=100)) == 100
    with pytest.raises(ConfigError, match=r"a list of at most 99 bytes, found more"):
        read_text_file("s3://bucket/a.txt", what="list", longest=99)


def test_a_list_of_images_has_a_bound_of_lines(tmp_path, monkeypatch):
    (tmp_path / "list").write_text("a\r\nb\n")
    monkeypatch.setattr(text_file, "MAX_LINES", 3)
    assert read_lines(str(tmp_path / "list"), what="list") == ["a", "b"]
    monkeypatch.setattr(text_file, "MAX_LINES", 2)
    for name, message in (("list", "expected a list of at most 2 lines, found 3"), ("none", "cannot read")):
        with pytest.raises(DataError, match=message) as caught:
            read_lines(str(tmp_path / name), what="list")
        assert caught.value.where == str(tmp_path / name)
