import gzip

from detection_core.storage import files
from detection_core.storage.file_parts import FilePart, file_part, part_path
from tests.support.cases import cases, refused
from tests.support.object_store import s3_server


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
    for content in (b"0123456789", b"abcdefghij"):  # a file that is written anew is read anew
        (tmp_path / "a").write_bytes(gzip.compress(content * (1 if content[0] < 64 else 2)))
        assert files.read_regular(part, 3) == content[2:5]
    (tmp_path / "a").write_bytes(b'"aGVsbG8=" "###"')
    part = FilePart(1, 8, str(tmp_path / "a"), base64=True)
    assert file_part(part_path(part)) == part
    assert files.read_regular(part_path(part), 5) == b"hello"
    refused(OSError, "at most 3 bytes", files.read_regular, part_path(part), 3)
    refused(OSError, "expected base64", files.read_regular, part_path(part._replace(offset=12, length=3)), 5)
