"""What lies within folders, archives and packed files."""

import errno
import gzip
import io
import os
import random
import stat
import warnings
import zipfile
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.errors import DataError
from detection_core.storage import file_parts, files, folder_listing, zip_archive
from detection_core.storage.file_parts import (
    FilePart,
    PackedFile,
    file_part,
    is_packed,
    part_path,
    read_packed,
    unpack_beginning,
)
from detection_core.storage.folder_listing import list_folder
from detection_core.storage.zip_archive import describe_zip, is_zip, unpack_zip
from tests.support.cases import cases, refused
from tests.support.object_store import s3_server

_RANDOM = random.Random(0)
CONTENT = b"".join(_RANDOM.randbytes(700) + b"\0" * 800 for _ in range(2000))  # 3 MB


def _opener(data):
    return lambda: io.BytesIO(data)


def _members(*parts):
    return b"".join(gzip.compress(part, mtime=0) for part in parts)


FORMS = {
    "gzip": gzip.compress(CONTENT, mtime=0),
    "zlib": zlib.compress(CONTENT),
    "members": _members(CONTENT[:1000], b"", CONTENT[1000:2_000_000], CONTENT[2_000_000:]),
    "padded": gzip.compress(CONTENT, mtime=0) + b"\0" * 100,
}


@pytest.mark.parametrize("form", FORMS)
@settings(deadline=None, max_examples=20)
@given(reads=st.lists(st.tuples(st.integers(0, len(CONTENT)), st.integers(0, 5000)), min_size=1, max_size=4))
def test_any_part_in_any_order_is_what_the_content_holds(form, reads):
    file = PackedFile(_opener(FORMS[form]))
    for offset, length in reads:
        assert file.read(offset, length) == CONTENT[offset : offset + length]
    assert b"".join(piece for _, piece in file.pieces()) == CONTENT


def test_states_are_kept_for_a_second_read_and_bounded(monkeypatch):
    read = []

    class Counting(io.BytesIO):
        def read(self, *size):
            read.append(self.tell())
            return super().read(*size)

    file = PackedFile(lambda: Counting(FORMS["gzip"]))
    file.read(len(CONTENT) - 10, 10)
    assert file.places > 1
    read.clear()
    assert file.read(len(CONTENT) - 10, 10) == CONTENT[-10:]
    assert min(read) > len(FORMS["gzip"]) // 2
    monkeypatch.setattr(file_parts, "MOST_PLACES", 2)
    monkeypatch.setattr(file_parts, "_packed_files", {})
    for key in "abc":
        assert read_packed(key, _opener(FORMS["gzip"]), len(CONTENT) - 10, 10) == CONTENT[-10:]
    assert sum(file.places for file in file_parts._packed_files.values()) <= 5
    assert all(is_packed(data[:12]) for data in FORMS.values())
    assert not any(is_packed(data) for data in (b"", b"\x1f", b"\xff\xd8\xff", b"hello", b"\0\0"))
    assert unpack_beginning(FORMS["gzip"][:4096], 100) == CONTENT[:100]
    assert unpack_beginning(b"nothing", 100) == b""


@cases(*FORMS)
def test_what_is_cut_or_damaged_is_an_error(*, form):
    whole = FORMS[form]
    end = len(whole) - 100 * (form == "padded")
    with pytest.raises(OSError, match="cut"):
        PackedFile(_opener(whole[: end - 20])).read(0, len(CONTENT) + 1)
    with pytest.raises(OSError, match=r"damaged|cut"):
        PackedFile(_opener(whole[:5000] + b"\xff" * 5000 + whole[10000:])).read(0, len(CONTENT))
    with pytest.raises(OSError, match="cut"):
        PackedFile(_opener(b"")).read(0, 1)


@cases("/a/b", "a:b+1:c", "s3://bucket/key", "part:1+2:x", "line\nbreak")
def test_a_path_tells_the_part_that_it_means(*, path):
    for part in (FilePart(3, 4, path), FilePart(3, 4, path, packed=True)):
        assert file_part(part_path(part)) == part
    assert file_part(path) == (FilePart(1, 2, "x") if path.startswith("part:") else None)


def test_parts_of_plain_packed_and_encoded_files_are_read_like_files(tmp_path):
    (tmp_path / "a").write_bytes(b"0123456789")
    part = part_path(FilePart(2, 3, str(tmp_path / "a")))
    assert files.read_regular(part, 3) == b"234"
    refused(OSError, "at most 2 bytes, found 3", files.read_regular, part, 2)
    for packed in (False, True):
        none = part_path(FilePart(0, 1, str(tmp_path / "none"), packed=packed))
        refused(FileNotFoundError, "", files.read_regular, none, 9)
    with s3_server() as bucket:
        files.write_bytes(f"{bucket}/a", b"0123456789")
        assert files.read_regular(part_path(FilePart(2, 3, f"{bucket}/a")), 3) == b"234"
        files.write_bytes(f"{bucket}/a.gz", gzip.compress(b"0123456789"))
        assert files.read_regular(part_path(FilePart(2, 3, f"{bucket}/a.gz", True)), 3) == b"234"
    part = part_path(FilePart(2, 3, str(tmp_path / "a"), packed=True))
    for content in (b"0123456789", b"abcdefghij"):  # a file that is written again is read again
        (tmp_path / "a").write_bytes(gzip.compress(content * (1 if content[0] < 64 else 2)))
        assert files.read_regular(part, 3) == content[2:5]
    (tmp_path / "a").write_bytes(b'"aGVsbG8=" "###"')
    part = FilePart(1, 8, str(tmp_path / "a"), base64=True)
    assert file_part(part_path(part)) == part and files.read_regular(part_path(part), 5) == b"hello"
    refused(OSError, "at most 3 bytes", files.read_regular, part_path(part), 3)
    refused(OSError, "expected base64", files.read_regular, part_path(part._replace(offset=12, length=3)), 5)


def _write(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


def test_a_listing_holds_all_but_hidden_files_and_reads_their_ends(tmp_path):
    _write(tmp_path, "b", "a.TXT", "in/c.txt", "in/deep/d", ".git/e", "__MACOSX/f", "in/.hidden")
    listing = list_folder(str(tmp_path))
    assert listing.folders == {"": ["a.TXT", "b"], "in": ["c.txt"], "in/deep": ["d"]} and listing.complete
    assert list(listing.paths(".txt")) == ["a.TXT", "in/c.txt"]
    assert list(listing.paths()) == ["a.TXT", "b", "in/c.txt", "in/deep/d"]
    assert listing.path("in") == str(tmp_path / "in") and listing.path("") == str(tmp_path)
    _write(tmp_path, "a.XML/note.txt", "in/b.xml/deep/c.xml", "in/d.xml.old/e")
    (tmp_path / "in" / "empty.xml").mkdir()
    assert list(list_folder(str(tmp_path)).folders_named(".xml")) == ["a.XML", "in/empty.xml"]
    refused(FileNotFoundError, "", list_folder, str(tmp_path / "none"))
    _write(tmp_path, "short")
    (tmp_path / "long").write_bytes(b"begin" + b"-" * 100 + b"end")
    os.mkfifo(tmp_path / "pipe")
    listing = list_folder(str(tmp_path))
    assert listing.ends("short", 5) == (b"short", b"")
    assert listing.ends("long", 5) == (b"begin", b"--end")
    assert listing.ends("long", 80) == (b"begin" + b"-" * 75, b"-" * 25 + b"end")
    assert listing.ends("pipe") == listing.ends("none") == (b"", b"")


def test_a_link_to_a_folder_is_followed_once_and_one_to_a_folder_above_never(tmp_path):
    _write(tmp_path, "mine/a", "other/b")
    os.symlink(tmp_path / "other", tmp_path / "mine" / "linked")
    os.symlink(tmp_path / "mine", tmp_path / "mine" / "loop")
    os.symlink(tmp_path / "mine" / "self", tmp_path / "mine" / "self")
    listing = list_folder(str(tmp_path / "mine"))
    assert list(listing.paths()) == ["a", "self", "linked/b"]
    _write(tmp_path, "home/in/a")
    os.symlink(tmp_path, tmp_path / "home" / "up")
    os.symlink("/", tmp_path / "home" / "in" / "disk")
    for bounded in (True, False):
        listing = list_folder(str(tmp_path / "home"), bounded=bounded)
        assert list(listing.paths()) == ["in/a"] and listing.complete
        assert listing.left_out == {
            "up": f"a link to {os.path.realpath(tmp_path)}, which this folder lies in",
            "in/disk": "a link to /, which this folder lies in",
        }


def test_a_folder_that_cannot_be_listed_is_named_by_a_look_and_stops_a_reading(tmp_path, monkeypatch):
    _write(tmp_path, "open/a", "shut/b")
    real = os.scandir

    def scandir(path):  # as the system does it for users other than root
        if os.path.basename(path) == "shut":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    listing = list_folder(str(tmp_path), bounded=True)
    assert list(listing.paths()) == ["open/a"] and list(listing.left_out) == ["shut"]
    assert "Permission denied: let this user list and read it" in listing.left_out["shut"]
    refused(DataError, "shut: expected a folder that can be listed, found Perm", list_folder, str(tmp_path))


@cases({"MAX_FOLDERS": 3}, {"MAX_NAMES": 1}, {"MAX_DEPTH": 2})
def test_a_look_ends_at_its_bounds_and_says_so(tmp_path, monkeypatch, *, bound):
    _write(tmp_path, "a/1/x", "b/2/y", "c/3/4/z", "top", "other")
    for name, value in bound.items():
        monkeypatch.setattr(folder_listing, name, value)
    look = list_folder(str(tmp_path), bounded=True)
    assert not look.complete and "top" in look.folders[""]
    assert list_folder(str(tmp_path)).complete


def _zip(path, *members, **options):
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", **options) as archive:
        warnings.simplefilter("ignore")  # a name twice
        for name, data in members:
            archive.writestr(name, data)
    return str(path)


def _unpacked(tmp_path, archive):
    folder = tmp_path / "out"
    folder.mkdir(exist_ok=True)
    unpack_zip(archive, str(folder))
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_files_are_written_as_they_are(tmp_path):
    members = [("a/b.txt", b"b"), ("c.jpg", bytes(1000)), ("./a/d", b""), ("e/", b""), ("__MACOSX/x", b"x")]
    archive = _zip(tmp_path / "a.ZIP", *members)
    assert is_zip(archive) and not is_zip(str(tmp_path))
    assert _unpacked(tmp_path, archive) == {"a/b.txt": b"b", "c.jpg": bytes(1000), "a/d": b""}
    other = _zip(tmp_path / "b.zip", ("a/b.txt", b"c"))
    assert describe_zip(archive) == describe_zip(archive) != describe_zip(other)


def _link():
    member = zipfile.ZipInfo("link")
    member.external_attr = (stat.S_IFLNK | 0o777) << 16
    return member


def _compressed(method):
    member = zipfile.ZipInfo("x")
    member.compress_type = method
    return member


@cases(
    ([("../x", b"")], "leads out"), ([("a/../../x", b"")], "leads out"),
    ([("/etc/x", b"")], "leads out"), ([("..\\x", b"")], "leads out"), ([("C:/x", b"")], "leads out"),
    ([(_link(), b"/etc/passwd")], "no plain file"), ([("a", b""), ("./a", b"")], "twice"),
    ([("a", b""), ("a/b", b"")], "no file can be called"),
    ([("a/" * 5000 + "b", b"")], "no file can be called"),
    ([(_compressed(zipfile.ZIP_LZMA), b"x")], "another method than deflate"),
    ([(_compressed(zipfile.ZIP_BZIP2), b"x")], "another method than deflate"),
)  # fmt: skip
def test_what_leads_out_or_is_no_plain_file_is_refused(tmp_path, *, members, found):
    refused(DataError, found, _unpacked, tmp_path, _zip(tmp_path / "a.zip", *members))
    assert set(os.listdir(tmp_path)) == {"a.zip", "out"}


def test_what_grows_beyond_reason_is_damaged_or_secret_is_one_error(tmp_path, monkeypatch):
    monkeypatch.setattr(zip_archive, "SMALL", 1 << 10)
    archive = _zip(tmp_path / "a.zip", ("a", b""), ("b", bytes(1 << 20)), compression=zipfile.ZIP_DEFLATED)
    refused(DataError, "more than", _unpacked, tmp_path, archive)
    assert os.listdir(tmp_path / "out") == []
    archive = tmp_path / "a.zip"
    _zip(archive, ("a", bytes(1000)), ("b", b"x"))
    archive.write_bytes(archive.read_bytes()[500:])
    refused(DataError, "damaged", _unpacked, tmp_path, str(archive))
    _zip(archive, ("a", b"content " * 50))
    whole = archive.read_bytes()
    archive.write_bytes(whole.replace(b"content", b"CONTENT", 1))
    refused(DataError, "damaged one", _unpacked, tmp_path, str(archive))
    archive.write_bytes(whole[:40])
    refused(DataError, "damaged one", describe_zip, str(archive))
    at = whole.index(b"PK\1\2")
    archive.write_bytes(whole[: at + 8] + b"\1" + whole[at + 9 :])
    (tmp_path / "out" / "a").unlink()
    refused(DataError, "encrypted", unpack_zip, str(archive), str(tmp_path / "out"))
