"""Files and folders on the disk, and which paths mean them."""

import contextlib
import errno
import fcntl
import multiprocessing
import os
import threading
import time
from unittest import mock

import pytest

from detection_core.errors import ConfigError, DataError, StorageError
from detection_core.storage import files, local_files, local_lock
from detection_core.storage.files import is_remote, opened_by_tensorflow, store_of
from detection_core.storage.local_files import LOCAL_DISK
from tests.support.cases import cases, refused
from tests.support.command_line import run_python
from tests.support.storage_faults import KILLED, failing_at, few_descriptors, killed_at, watched
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


def test_names_that_no_file_can_have_are_errors_of_the_user(tmp_path):
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


def _fill(folder, text="new"):
    for name in ("a", "deep/b"):
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write(text)


def _content(folder):
    return {files.read_text(os.path.join(folder, name)) for name in ("a", "deep/b")}


def _replace(folder, text="new"):
    with LOCAL_DISK.atomic_dir(str(folder)) as partial:
        _fill(partial, text)


def test_an_error_is_raised_while_others_write_to_the_folder_and_the_next_writer_cleans_up(tmp_path):
    def not_empty(path, **_):  # what rmdir says where a file came after the folder was listed
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)

    with (
        pytest.raises(RuntimeError, match="first"),
        pytest.MonkeyPatch.context() as patch,
        LOCAL_DISK.atomic_dir(str(tmp_path / "made")) as folder,
    ):
        _fill(folder)
        patch.setattr(os, "rmdir", not_empty)
        raise RuntimeError("first")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "rmdir", not_empty)
        _replace(tmp_path / "made")
    assert len(os.listdir(tmp_path)) == 2 and _content(tmp_path / "made") == {"new"}
    _replace(tmp_path / "made", "last")
    assert os.listdir(tmp_path) == ["made"]


def test_a_folder_is_whole_after_a_kill_or_an_error_at_any_change_and_the_next_writer_cleans_up(tmp_path):
    for name, fault in (("killed", killed_at), ("failed", lambda at: failing_at(at, errno.ENOSPC))):
        found = set()
        for at in range(1, 40):
            path = str(tmp_path / name / str(at) / "made")
            _replace(path, "old")
            with watched(fault(at)) as changes, contextlib.suppress(*KILLED, OSError):
                _replace(path)
            # Between two renames of one that was killed there is nothing under the name; never a part.
            there = _content(path) if os.path.exists(path) else set()
            assert len(there) == 1 or (name == "killed" and not there)
            found |= there
            _replace(path, "last")
            assert os.listdir(os.path.dirname(path)) == ["made"] and _content(path) == {"last"}
        assert changes.made < 39 and found == {"old", "new"}


def test_writers_of_one_file_leave_each_other_alone_and_list_nothing(tmp_path, monkeypatch):
    path = str(tmp_path / "made")
    with files.atomic_file(path) as first, files.atomic_file(path) as second:
        first.write(b"first, the last to end")
        second.write(b"second")
        assert len(os.listdir(tmp_path)) == 2
    assert os.listdir(tmp_path) == ["made"] and files.read_text(path) == "first, the last to end"
    monkeypatch.setattr(os, "scandir", lambda *_: pytest.fail("listed"))
    monkeypatch.setattr(os, "listdir", lambda *_: pytest.fail("listed"))
    files.write_text(str(tmp_path / "made"), "x")


def test_a_leftover_that_may_not_be_removed_is_in_nobodys_way(tmp_path, monkeypatch):
    with watched(killed_at(3)), contextlib.suppress(*KILLED):
        files.write_text(str(tmp_path / "made"), "cut")
    [left] = [name for name in os.listdir(tmp_path) if name != "made"]
    original = os.remove

    def remove(path):
        if os.path.basename(path) == left:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), path)
        original(path)

    monkeypatch.setattr(os, "remove", remove)
    files.write_text(str(tmp_path / "made"), "whole")
    assert sorted(os.listdir(tmp_path)) == [left, "made"]
    assert files.read_text(str(tmp_path / "made")) == "whole"


def test_the_next_writer_of_a_file_removes_what_a_killed_one_has_left_but_not_a_living_one_s(tmp_path):
    left = []
    for at in range(1, 6):
        path = str(tmp_path / str(at) / "made")
        with watched(killed_at(at)) as changes, contextlib.suppress(*KILLED):
            files.write_text(path, "cut")
        folder = os.path.dirname(path)
        left += [name for name in (os.listdir(folder) if os.path.isdir(folder) else ()) if name != "made"]
        files.write_text(path, "whole")
        assert os.listdir(folder) == ["made"] and files.read_text(path) == "whole"
    assert left and changes.made < 5
    with LOCAL_DISK.atomic_dir(str(tmp_path / "made")) as folder:
        LOCAL_DISK.remove_leftovers(str(tmp_path))
        assert os.path.isdir(folder)
    abandoned = tmp_path / ".made.0123abcd.partial"
    abandoned.mkdir()
    other = tmp_path / ".other.0123abcd.partial"
    other.write_text("x")
    LOCAL_DISK.remove_leftovers(str(tmp_path), "made")
    assert not abandoned.exists() and other.exists()
    LOCAL_DISK.remove_leftovers(str(tmp_path))
    assert not other.exists()
    LOCAL_DISK.remove_leftovers(str(tmp_path / "nowhere"))


def test_six_writers_of_one_folder_all_end_well(tmp_path):
    def write_often(number):
        for _ in range(15):
            _replace(tmp_path / "made", str(number))

    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=write_often, args=(n,)) for n in range(6)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
    assert [w.exitcode for w in writers] == [0] * 6
    assert len(_content(tmp_path / "made")) == 1 and os.listdir(tmp_path) == ["made"]


def test_everything_is_on_the_disk_before_it_appears(tmp_path, monkeypatch):
    events = []
    monkeypatch.setattr(os, "fsync", lambda f: events.append(os.readlink(f"/proc/self/fd/{f}")))
    for name in ("rename", "replace"):
        original = getattr(os, name)
        monkeypatch.setattr(os, name, lambda a, b, f=original: (events.append(("renamed", a, b)), f(a, b)))
    with LOCAL_DISK.atomic_dir(str(tmp_path / "made")) as folder:
        _fill(folder)
    moved = events.index(("renamed", folder, str(tmp_path / "made")))
    assert {f"{folder}/a", f"{folder}/deep/b", f"{folder}/deep", folder} <= set(events[:moved])
    assert str(tmp_path) in events[moved:]
    events.clear()
    with files.atomic_file(str(tmp_path / "file")) as f:
        f.write(b"x")
    moved = next(i for i, e in enumerate(events) if e[0] == "renamed")
    assert events[moved][1] in events[:moved] and str(tmp_path) in events[moved:]


def test_what_stands_in_the_place_of_a_folder_is_replaced_or_led_through_by_a_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    _replace(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and _content(tmp_path / "elsewhere") == {"new"}
    (tmp_path / "made").write_text("x")
    _replace(tmp_path / "made")
    assert _content(tmp_path / "made") == {"new"}
    (tmp_path / "file").write_text("x")
    with pytest.raises((NotADirectoryError, FileExistsError)):
        files.make_dirs(str(tmp_path / "file" / "below"))


def test_a_lock_file_keeps_its_content_is_no_link_or_folder_and_is_taken_anew_once_removed(tmp_path):
    victim = tmp_path / "precious"
    victim.write_text("precious")
    (tmp_path / "link").symlink_to(victim)
    (tmp_path / "folder").mkdir()
    for name, found in (("link", "a link"), ("folder", "a folder")):
        refused = pytest.raises(StorageError, match=f"expected a lock file, found {found}")
        with refused, local_lock.lock(str(tmp_path / name)):
            pass
    assert victim.read_text() == "precious"
    path = str(tmp_path / "lock")
    files.write_text(path, "kept")
    assert not local_lock.is_locked(path) and not local_lock.is_locked(str(tmp_path / "none"))
    with local_lock.lock(path):
        assert local_lock.is_locked(path)
        with pytest.raises(BlockingIOError), local_lock.lock(path, BlockingIOError()):
            pass
    assert files.read_text(path) == "kept" and not local_lock.is_locked(path)
    with local_lock.lock(path), few_descriptors(0), pytest.raises(OSError, match="Too many open files"):
        local_lock.is_locked(path)
    held = threading.Event()

    def wait():
        with local_lock.lock(path):
            held.set()
            assert os.path.exists(path) and local_lock.is_locked(path)

    waiter = threading.Thread(target=wait)
    with open(path, "w") as old:
        fcntl.flock(old, fcntl.LOCK_EX)
        waiter.start()
        assert not held.wait(0.2)
        os.remove(path)
    waiter.join(10)
    assert held.is_set()


@cases(True, False)
def test_a_folder_that_is_replaced_is_there_at_every_moment(tmp_path, monkeypatch, *, exchanging):
    if not exchanging:  # as on a file system that cannot
        monkeypatch.setattr(local_files, "_exchange", lambda *_: False)
    target = tmp_path / "made"
    there: list[bool] = []

    def replace(text):
        there.clear()
        with (
            watched(seen=lambda: there.append((target / "a").exists())),
            LOCAL_DISK.atomic_dir(str(target)) as folder,
        ):
            files.write_text(f"{folder}/a", text)

    replace("old")
    replace("new")
    assert all(there) == exchanging and len(there) > 3
    assert (target / "a").read_text() == "new" and os.listdir(tmp_path) == ["made"]


def test_only_what_can_be_there_is_there_and_a_device_stays_one(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").write_text("")
    for name in ("none", "loop", "file/below", "x" * 300):
        assert not files.exists(str(tmp_path / name)) and not files.is_dir(str(tmp_path / name))
    assert files.exists(str(tmp_path / "file")) and not files.is_dir(str(tmp_path / "file"))
    assert files.exists(str(tmp_path)) and files.is_dir(str(tmp_path))
    for code in (errno.EIO, errno.ESTALE):  # a disk that does not answer is not an empty one
        error = OSError(code, os.strerror(code), str(tmp_path))
        with mock.patch.object(local_files.os, "stat", side_effect=error):
            for look in (files.exists, files.is_dir, lambda path: files.list_matching(path, "*")):
                refused(OSError, os.strerror(code), look, str(tmp_path))
    files.write_bytes(os.devnull, b"x")
    assert not os.path.isfile(os.devnull)
    refused(StorageError, "expected a path where folders can be made", files.make_dirs, "/proc/no/such")


def test_each_scheme_has_its_store_and_paths_with_credentials_are_not_shown():
    extras = {scheme: store_of(f"{scheme}://bucket/a").extra for scheme in ("s3", "gs", "gcs", "abfs", "az")}
    assert extras == {"s3": "s3", "gs": "gcs", "gcs": "gcs", "abfs": "azure", "az": "azure"}
    for first in ("s3", "gs", "abfs"):
        store = store_of(f"{first}://bucket/a")
        assert store.schemes[0] == first
        assert all(store_of(f"{scheme}://bucket/a") is store for scheme in store.schemes)
    assert {path: is_remote(path) for path in ("abfss://bucket/a", "gs://b/x", "file:///a", "/a")} == {
        "abfss://bucket/a": True, "gs://b/x": True, "file:///a": False, "/a": False,
    }  # fmt: skip
    for path, use in (("http://nowhere/x", files.exists), ("hdfs://nowhere/x", store_of)):
        found = rf"{path}: expected a local path or one of abfs://, .*, s3://, .*found {path[:7]}"
        refused(DataError, found, use, path)
    for path in ("s3://KEY-SENTINEL:s/SENTINEL@b/x", "gs://b/x?token=SENTINEL", "abfss://c:SENTINEL@a.dfs/x"):
        error = refused(DataError, "expected a path without credentials", store_of, path)
        assert "SENTINEL" not in str(error)


def test_tensorflow_opens_local_paths_and_google_cloud_storage(monkeypatch):
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    opened = {p: opened_by_tensorflow(p) for p in ("/a", "file:///a", "gs://b/a", "s3://b/a", "az://b/a")}
    assert opened == {"/a": True, "file:///a": True, "gs://b/a": True, "s3://b/a": False, "az://b/a": False}
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1")
    assert not opened_by_tensorflow("gs://b/a")
    import tensorflow as tf

    assert {"gs"} == {"gs", "s3", "az", "abfs"} & set(tf.io.gfile.get_registered_schemes())


def test_a_local_path_imports_no_store():
    program = """
import sys
from detection_core.storage import files
files.exists("/x")
heavy = {"fsspec", "s3fs", "gcsfs", "adlfs", "botocore", "azure", "aiohttp", "tensorflow"}
print(sorted(heavy & set(sys.modules)), "detection_core.storage.object_store" in sys.modules)
"""
    assert run_python(program).stdout == "[] False\n"
