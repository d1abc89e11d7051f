import errno
import os
import time

import pytest

from detection_core.errors import ConfigError, DataError
from detection_core.storage import files
from tests.support.cases import refused
from tests.support.threads import at_once


def test_files_and_folders_appear_whole_and_a_failed_writer_leaves_what_was_there(tmp_path):
    target = str(tmp_path / "made")
    with files.atomic_dir(target) as folder:
        files.write_text(os.path.join(folder, "x"), "1")
        assert not files.exists(target)
    with pytest.raises(RuntimeError), files.atomic_dir(target) as folder:
        files.write_text(os.path.join(folder, "new"), "2")
        raise RuntimeError
    assert files.list_dir(target) == ["x"]
    assert os.listdir(tmp_path) == ["made"]
    path = tmp_path / "new" / "file"
    with files.atomic_file(str(path)) as f:
        f.write(b"one")
        assert not path.exists()
    with pytest.raises(RuntimeError), files.atomic_file(str(path)) as f:
        f.write(b"two")
        raise RuntimeError
    assert path.read_bytes() == b"one"
    assert os.listdir(path.parent) == ["file"]
    path = str(tmp_path / "deep" / "a.txt")
    files.write_text(path, "one")
    files.write_text(path, "two é")
    assert files.read_text(path) == "two é"
    assert os.listdir(tmp_path / "deep") == ["a.txt"]


def test_folders_are_listed_as_they_are_written_copied_and_removed(tmp_path):
    for name in ("b.txt", "a.txt"):
        files.write_text(str(tmp_path / name), "")
    assert [os.path.basename(p) for p in files.glob(str(tmp_path / "*.txt"))] == ["a.txt", "b.txt"]
    files.remove_tree(str(tmp_path / "a.txt"))
    files.remove_tree(str(tmp_path / "a.txt"))
    assert files.list_dir(str(tmp_path)) == ["b.txt"]
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c.bin").write_bytes(b"\x00\xff")
    files.copy_tree(str(tmp_path / "a"), str(tmp_path / "z"))
    assert files.read_bytes(str(tmp_path / "z" / "b" / "c.bin")) == b"\x00\xff"
    assert files.total_size(str(tmp_path / "z")) == 2
    assert files.sizes(str(tmp_path / "z")) == {"b/c.bin": 2} and files.sizes(str(tmp_path / "x")) == {}
    for name in ("a[1]/mine.txt", "a1/theirs.txt", "a[1]/.hidden.txt", "a[1]/other.bin"):
        files.write_text(str(tmp_path / name), "")
    folder = str(tmp_path / "a[1]")
    assert files.list_matching(folder, "*.txt") == [f"{folder}/mine.txt"]
    assert files.list_matching(folder, "?ine.[tx]*") == [f"{folder}/mine.txt"]
    assert files.list_matching(folder, ".h*") == [f"{folder}/.hidden.txt"]
    assert files.list_matching(str(tmp_path / "none"), "*") == []
    assert files.glob(f"{files.escape(folder)}/*.txt") == [f"{folder}/mine.txt"]


def test_schemes_and_names_that_no_file_can_have_are_errors_of_the_user(tmp_path):
    assert files.is_remote("gs://bucket/x")
    assert not files.is_remote("/local/x")
    assert not files.is_remote("file:///local/x")
    found = r"http://nowhere/x: expected a local path or one of abfs://, .*, found http://"
    refused(DataError, found, files.exists, "http://nowhere/x")
    for name in ("a\0b", "a\ud800b"):
        for use in (files.make_dirs, files.read_text, files.exists, files.list_dir):
            refused(ConfigError, "which no file can have", use, str(tmp_path / name))


def test_content_is_downloaded_compared_and_read_from_regular_files_of_bounded_size(tmp_path):
    files.write_bytes(str(tmp_path / "there"), b"x" * 3_000_000)
    files.download(f"file://{tmp_path}/there", str(tmp_path / "here"))
    assert (tmp_path / "here").read_bytes() == b"x" * 3_000_000
    for name, text in (("a", "one"), ("b", "one"), ("c", "two")):
        (tmp_path / name).write_text(text)
    a, b, c = (files.content_state(str(tmp_path / name)) for name in "abc")
    assert a == b != c
    refused(FileNotFoundError, "", files.content_state, str(tmp_path / "d"))
    (tmp_path / "a").write_bytes(b"1234")
    os.mkfifo(tmp_path / "pipe")
    os.symlink("/dev/zero", tmp_path / "zero")
    assert files.read_regular(str(tmp_path / "a"), 4) == b"1234"
    for name, limit, code in (("a", 3, errno.EFBIG), ("pipe", 9, errno.EINVAL), ("zero", 9, errno.EINVAL)):
        assert refused(OSError, "", files.read_regular, str(tmp_path / name), limit).errno == code
    refused(FileNotFoundError, "", files.read_regular, str(tmp_path / "none"), 9)


def test_one_at_a_time_holds_a_lock_file(tmp_path):
    order = []

    def work(name):
        with files.exclusive(str(tmp_path / ".lock")):
            order.append(name)
            time.sleep(0.05)
            order.append(name)

    at_once("ab", work)
    assert order in (list("aabb"), list("bbaa"))
