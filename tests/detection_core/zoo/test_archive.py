"""Archives of the zoo are unpacked, and what only looks like one is refused without a trace outside."""

import gzip
import os
import shutil
import tarfile

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


def _more(path, *kind):
    return archive(more=(member(f"{NAME}/{path}", *kind),))


# Paths that lead out, links and devices, files given twice, and names that no file can have.
@cases(
    *[(archive(more=(member(path),)), "leads out of its folder")
      for path in ("../outside", f"{NAME}/../../outside", "/tmp/outside",
                   f"{NAME}/checkpoint/../../../outside", "a\\b")],
    (_more("checkpoint/x", tarfile.SYMTYPE, "/etc/passwd"), "no plain file"),
    (_more("checkpoint/x", tarfile.LNKTYPE, f"{NAME}/pipeline.config"), "no plain file"),
    (_more("checkpoint/x", tarfile.FIFOTYPE), "no plain file"),
    (_more("checkpoint/x", tarfile.CHRTYPE), "no plain file"),
    (archive(more=(member(f"{NAME}/checkpoint/x", tarfile.SYMTYPE, "../../.."),
                   member(f"{NAME}/checkpoint/x/outside"))), "no plain file"),
    (_more("pipeline.config"), "twice"), (_more("checkpoint/checkpoint/x"), "no file can be called"),
    (_more("checkpoint/" + "x" * 300), "no file can be called"),
)  # fmt: skip
def test_members_that_are_no_files_inside_are_refused(tmp_path, *, content, message):
    refused(ModelError, message, _unpack, tmp_path, content)


def test_bombs_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MOST_BYTES", 1_000_000)
    monkeypatch.setattr(archives, "MOST_MEMBERS", 20)
    zeros = archive({**FILES, "saved_model/zeros": bytes(50_000_000)})
    refused(ModelError, "more than 1,000,000 bytes", _unpack, tmp_path, zeros)
    many = archive({f"saved_model/{n}": b"" for n in range(30)})
    refused(ModelError, "more than 20 files", _unpack, tmp_path, many)
    # Nothing but zeros after the end: what a reader of members never sees.
    behind = gzip.compress(gzip.decompress(archive()) + bytes(50_000_000), 1)
    refused(ModelError, "more than 1,000,000 bytes", _unpack, tmp_path, behind)


def _header(kind, content, size=None):
    info = tarfile.TarInfo(f"{NAME}/x")
    info.type, info.size = kind, len(content) if size is None else size
    return info.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512)


_BROKEN = "a damaged one|of less than no bytes"
_MAJOR = b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n"


# Sizes that are not there or would fill the memory, and what the library stumbles over: many digits, a sparse
# map, sparse 1.0, a negative size, nesting.
@cases(
    (_header(tarfile.XHDTYPE, bytes(1 << 20), 8 << 30), "a header of"),
    (_header(tarfile.REGTYPE, b"", 3 << 40), "bytes"),
    (_header(tarfile.XHDTYPE, b"9" * 5000 + b" size=1\n"), _BROKEN),
    (_header(tarfile.XHDTYPE, b"23 GNU.sparse.size=99x\n22 GNU.sparse.map=1,a\n"), _BROKEN),
    (_header(tarfile.XHDTYPE, _MAJOR) + _header(tarfile.REGTYPE, b"9" * 511 + b"\n"), _BROKEN),
    (_header(tarfile.XHDTYPE, b"13 size=-512\n"), _BROKEN),
    (_header(tarfile.GNUTYPE_LONGNAME, b"abc\0") * 3000, _BROKEN),
)
def test_headers_that_ask_for_too_much_or_are_broken_are_refused(tmp_path, *, header, message):
    whole = gzip.decompress(archive()) if message == _BROKEN else b""
    refused(ModelError, message, _unpack, tmp_path, gzip.compress(header + whole, 1))


def _changed(place):
    content = bytearray(archive())
    content[place] ^= 0xFF
    return bytes(content)


@cases(
    *[(archive()[:length], "damaged|in it, found") for length in (0, 5, 100, 1000, -9, -1)],
    *[(_changed(place), "a damaged one") for place in (12, 60, -6)],
    *[(data, "expected") for data in (b"<html>", b"PK\x03\x04", gzip.compress(b"text", mtime=0), b"")],
    (archive(name="efficientdet_d1_coco17_tpu-32"), f"expected one folder {NAME}"),
    (archive({"frozen.pb": b"graph"}), "ckpt-0.index in it, found frozen.pb"),
)
def test_what_is_damaged_or_no_archive_of_this_detector_is_refused(tmp_path, *, content, message):
    refused(ModelError, message, _unpack, tmp_path, content)
