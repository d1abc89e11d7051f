import os
import stat
import warnings
import zipfile

from detection_core.errors import DataError
from detection_core.storage import zip_archive
from detection_core.storage.zip_archive import describe_zip, is_zip, unpack_zip
from tests.support.cases import cases, refused


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
    ([("../x", b"")], "leads out"),
    ([("a/../../x", b"")], "leads out"),
    ([("/etc/x", b"")], "leads out"),
    ([("..\\x", b"")], "leads out"),
    ([("C:/x", b"")], "leads out"),
    ([(_link(), b"/etc/passwd")], "no plain file"),
    ([("a", b""), ("./a", b"")], "twice"),
    ([("a", b""), ("a/b", b"")], "no file can be called"),
    ([("a/" * 5000 + "b", b"")], "no file can be called"),
    ([(_compressed(zipfile.ZIP_LZMA), b"x")], "another method than deflate"),
    ([(_compressed(zipfile.ZIP_BZIP2), b"x")], "another method than deflate"),
)
def test_what_leads_out_or_is_no_plain_file_is_refused(tmp_path, *, members, found):
    archive = _zip(tmp_path / "a.zip", *members)
    refused(DataError, found, _unpacked, tmp_path, archive)
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
