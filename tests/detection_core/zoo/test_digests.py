import hashlib
import json
import os
import time

import pytest

from detection_core.zoo import digests
from detection_core.zoo.digests import file_digest
from tests.support.cases import cases


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(digests, "_SETTLED_NS", -1)
    path = tmp_path / "zoo" / "ckpt-0.data"
    path.parent.mkdir()
    path.write_bytes(b"weights")
    return path


SMALL, LARGE = (hashlib.sha256(data).hexdigest() for data in (b"weights", b"WEIGHTS"))


def test_a_file_that_stays_is_read_once_unless_it_was_written_just_now(tmp_path, file, monkeypatch):
    reads, whole = [], hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda *a: reads.append(a) or whole(*a))
    with monkeypatch.context() as young:
        young.setattr(digests, "_SETTLED_NS", 60_000_000_000)
        for _ in range(2):
            file_digest(str(tmp_path), str(file))
    assert len(reads) == 2 and not (tmp_path / "digests.json").exists()
    for _ in range(3):
        assert file_digest(str(tmp_path), str(file)) == SMALL
        assert file_digest(str(tmp_path), str(file), "md5") == hashlib.md5(b"weights").hexdigest()
    assert len(reads) == 4


def test_every_change_is_seen_and_notes_of_files_that_are_gone_go(tmp_path, file):
    file_digest(str(tmp_path), str(file))
    before = file.stat()
    while time.time_ns() - before.st_ctime_ns < 20_000_000:  # a tick of the file system's clock
        time.sleep(0.005)
    file.write_bytes(b"WEIGHTS")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file_digest(str(tmp_path), str(file)) == LARGE
    other = file.with_name("other")
    other.write_bytes(b"weights")
    os.replace(other, file)
    assert file_digest(str(tmp_path), str(file)) == SMALL
    file.rename(other)
    file_digest(str(tmp_path), str(other))
    assert set(json.loads((tmp_path / "digests.json").read_text())) == {"zoo/other"}


@cases("", "[]", '{"zoo/ckpt-0.data": 3}', '{"zoo/ckpt-0.data": {"state": []}}', "\xff", None)
def test_notes_of_something_else_are_written_again_where_they_can_be(file, *, text):
    root = file.parents[1]
    notes = root / "digests.json"
    if text is None:
        notes.unlink()
        notes.mkdir()
    else:
        notes.write_text(text, encoding="latin-1")
    assert file_digest(str(root), str(file)) == SMALL
    assert text is None or set(json.loads(notes.read_text())) == {"zoo/ckpt-0.data"}
