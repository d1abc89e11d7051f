"""Archives of the zoo are unpacked, and what only looks like one is refused without a trace outside."""

import gzip
import io
import os
import shutil
import tarfile

import pytest

from detection_core.errors import ModelError
from detection_core.zoo import archive as archives
from detection_core.zoo.archive import unpack_detector
from tests.support.archives import FILES, NAME, archive, member
from tests.support.cases import cases, refused


def _unpack(tmp_path, content, name=NAME):
    path, folder = tmp_path / f"{name}.tar.gz", tmp_path / "cache" / "out"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    path.write_bytes(content)
    try:
        unpack_detector(str(path), str(folder))
    finally:
        beside = {p.relative_to(tmp_path).parts[0] for p in tmp_path.rglob("*")}
        assert beside == {path.name, "cache"} and os.listdir(tmp_path / "cache") == ["out"]
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_checkpoint_and_config_are_unpacked_and_paths_may_begin_with_a_dot(tmp_path):
    expected = {path: content for path, content in FILES.items() if not path.startswith("saved_model")}
    assert _unpack(tmp_path, archive()) == expected
    assert "checkpoint/ckpt-0.index" in _unpack(tmp_path, archive(name=f"./{NAME}"))


@cases("../outside", f"{NAME}/../../outside", "/tmp/outside", f"{NAME}/checkpoint/../../../outside", "a\\b")
def test_paths_that_lead_out_are_refused(tmp_path, *, path):
    refused(ModelError, "leads out of its folder", lambda: _unpack(tmp_path, archive(more=(member(path),))))


@cases(
    (tarfile.SYMTYPE, "/etc/passwd"), (tarfile.LNKTYPE, f"{NAME}/pipeline.config"), (tarfile.FIFOTYPE, ""),
    (tarfile.CHRTYPE, ""),
)  # fmt: skip
def test_links_and_devices_are_refused(tmp_path, *, kind, target):
    with pytest.raises(ModelError, match="no plain file"):
        _unpack(tmp_path, archive(more=(member(f"{NAME}/checkpoint/x", kind, target),)))


def test_links_and_files_given_twice_are_refused_whatever_follows(tmp_path):
    link = member(f"{NAME}/checkpoint/x", tarfile.SYMTYPE, "../../..")
    with pytest.raises(ModelError, match="no plain file"):
        _unpack(tmp_path, archive(more=(link, member(f"{NAME}/checkpoint/x/outside"))))
    with pytest.raises(ModelError, match="twice"):
        _unpack(tmp_path, archive(more=(member(f"{NAME}/pipeline.config"),)))


def test_bombs_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MOST_BYTES", 1_000_000)
    monkeypatch.setattr(archives, "MOST_MEMBERS", 20)
    with pytest.raises(ModelError, match="more than 1,000,000 bytes"):
        _unpack(tmp_path, archive({**FILES, "saved_model/zeros": bytes(50_000_000)}))
    with pytest.raises(ModelError, match="more than 20 files"):
        _unpack(tmp_path, archive({f"saved_model/{n}": b"" for n in range(30)}))
    # Nothing but zeros after the end: what a reader of members never sees.
    content = gzip.decompress(archive()) + bytes(50_000_000)
    refused(ModelError, "more than 1,000,000 bytes", lambda: _unpack(tmp_path, gzip.compress(content, 1)))


def test_sizes_that_are_not_there_or_would_fill_the_memory_are_refused(tmp_path):
    header = tarfile.TarInfo("long")
    header.type, header.size = tarfile.XHDTYPE, 8 << 30
    content = header.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20)
    refused(ModelError, "a header of", lambda: _unpack(tmp_path, gzip.compress(content, 1)))
    huge = member(f"{NAME}/checkpoint/x")
    huge.size = 3 << 40
    buffer = io.BytesIO(huge.tobuf(tarfile.GNU_FORMAT))
    refused(ModelError, "bytes", lambda: _unpack(tmp_path, gzip.compress(buffer.getvalue())))


def _header(kind, content, fmt=tarfile.GNU_FORMAT):
    info = tarfile.TarInfo(f"{NAME}/x")
    info.type, info.size = kind, len(content)
    return info.tobuf(fmt) + content + bytes(-len(content) % 512)


@cases(
    _header(tarfile.XHDTYPE, b"9" * 5000 + b" size=1\n"),
    _header(tarfile.XHDTYPE, b"23 GNU.sparse.size=99x\n22 GNU.sparse.map=1,a\n"),
    _header(tarfile.XHDTYPE, b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n")
    + _header(tarfile.REGTYPE, b"9" * 511 + b"\n"),
    _header(tarfile.XHDTYPE, b"13 size=-512\n"),
    _header(tarfile.GNUTYPE_LONGNAME, b"abc\0") * 3000,
)
def test_headers_that_the_library_stumbles_over_are_refused(tmp_path, *, header):
    content = header + gzip.decompress(archive())
    with pytest.raises(ModelError, match=r"a damaged one|of less than no bytes"):
        _unpack(tmp_path, gzip.compress(content, 1))


@cases(0, 5, 100, 1000, -9, -1)
def test_truncated_archives_are_called_so(tmp_path, *, length):
    refused(ModelError, r"damaged|in it, found", lambda: _unpack(tmp_path, archive()[:length]))


@cases(12, 60, -6)
def test_changed_bytes_are_found(tmp_path, *, place):
    content = bytearray(archive())
    content[place] ^= 0xFF
    refused(ModelError, "", lambda: _unpack(tmp_path, bytes(content)))


@cases(b"<html>not found</html>", b"PK\x03\x04", gzip.compress(b"text", mtime=0), b"")
def test_what_is_no_archive_is_refused(tmp_path, *, content):
    refused(ModelError, "expected", _unpack, tmp_path, content)


def test_archives_of_another_detector_or_without_a_checkpoint_are_refused(tmp_path):
    with pytest.raises(ModelError, match=f"expected one folder {NAME}"):
        _unpack(tmp_path, archive(name="efficientdet_d1_coco17_tpu-32"))
    with pytest.raises(ModelError, match=r"ckpt-0.index in it, found frozen.pb"):
        _unpack(tmp_path, archive({"frozen.pb": b"graph"}))


@cases("checkpoint/checkpoint/x", "checkpoint/" + "x" * 300)
def test_names_that_no_file_can_have_are_refused(tmp_path, *, path):
    with pytest.raises(ModelError, match="no file can be called"):
        _unpack(tmp_path, archive(more=(member(f"{NAME}/{path}"),)))
