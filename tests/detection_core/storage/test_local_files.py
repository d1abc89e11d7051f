import contextlib
import errno
import fcntl
import multiprocessing
import os
import threading
from unittest import mock

import pytest

from detection_core.errors import StorageError
from detection_core.storage import files, local_files
from tests.support.cases import cases, refused
from tests.support.storage_faults import KILLED, failing_at, few_descriptors, killed_at, watched


def _fill(folder, text="new"):
    for name in ("a", "deep/b"):
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write(text)


def _content(folder):
    return {files.read_text(os.path.join(folder, name)) for name in ("a", "deep/b")}


def _replace(folder, text="new"):
    with local_files.partial_dir(str(folder)) as partial:
        _fill(partial, text)


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


def test_the_next_writer_of_a_file_removes_what_a_killed_one_has_left(tmp_path):
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


def test_what_a_living_writer_holds_is_no_leftover(tmp_path):
    with local_files.partial_dir(str(tmp_path / "made")) as folder:
        assert local_files.remove_leftovers(str(tmp_path)) == 0 and os.path.isdir(folder)
    abandoned = tmp_path / ".made.0123abcd.partial"
    abandoned.mkdir()
    (tmp_path / ".other.0123abcd.partial").write_text("x")
    assert local_files.remove_leftovers(str(tmp_path), "made") == 1 and not abandoned.exists()
    assert local_files.remove_leftovers(str(tmp_path)) == 1
    assert local_files.remove_leftovers(str(tmp_path / "nowhere")) == 0


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
    with local_files.partial_dir(str(tmp_path / "made")) as folder:
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
        local_files.make_dirs(str(tmp_path / "file" / "below"))


def test_a_lock_file_keeps_its_content_and_is_no_link_or_folder(tmp_path):
    victim = tmp_path / "precious"
    victim.write_text("precious")
    (tmp_path / "link").symlink_to(victim)
    (tmp_path / "folder").mkdir()
    for name, found in (("link", "a link"), ("folder", "a folder")):
        refused = pytest.raises(StorageError, match=f"expected a lock file, found {found}")
        with refused, local_files.lock(str(tmp_path / name)):
            pass
    assert victim.read_text() == "precious"
    path = str(tmp_path / "lock")
    files.write_text(path, "kept")
    assert not local_files.is_locked(path) and not local_files.is_locked(str(tmp_path / "none"))
    with local_files.lock(path):
        assert local_files.is_locked(path)
        with pytest.raises(BlockingIOError), local_files.lock(path, wait=False):
            pass
    assert files.read_text(path) == "kept" and not local_files.is_locked(path)
    with local_files.lock(path), few_descriptors(0), pytest.raises(OSError, match="Too many open files"):
        local_files.is_locked(path)


def test_whoever_waited_for_a_lock_file_that_was_removed_takes_the_new_one(tmp_path):
    path = str(tmp_path / "lock")
    held = threading.Event()

    def wait():
        with local_files.lock(path):
            held.set()
            assert os.path.exists(path) and local_files.is_locked(path)

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
            local_files.partial_dir(str(target)) as folder,
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
    refused(StorageError, "expected a path where folders can be made", local_files.make_dirs, "/proc/no/such")
