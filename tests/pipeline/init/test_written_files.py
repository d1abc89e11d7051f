import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from detection_core.errors import ConfigError
from pipeline.init.written_files import RECORD, write_unchanged
from tests.support.cases import refused
from tests.support.storage_faults import KILLED, killed_at, watched

CONTENTS = {"a.yaml": b"a", "b.config": b"b"}


def contents_of(folder):
    return {name: (folder / name).read_bytes() for name in os.listdir(folder) if name != RECORD}


def test_files_are_written_and_written_again(tmp_path):
    folder = tmp_path / "new" / "folder"
    write_unchanged(str(folder), CONTENTS)
    assert contents_of(folder) == CONTENTS
    write_unchanged(str(folder), {"a.yaml": b"other", "c.png": b"c"})
    assert contents_of(folder) == {"a.yaml": b"other", "b.config": b"b", "c.png": b"c"}
    write_unchanged(str(folder), CONTENTS)
    assert contents_of(folder) == {**CONTENTS, "c.png": b"c"}
    refused(ConfigError, "expected a folder on this machine", write_unchanged, "s3://bucket/x", CONTENTS)


def replaced(folder):
    (folder / "b.config").unlink()
    return folder / "b.config"


DAMAGE = {
    "changed": lambda folder: (folder / "b.config").write_bytes(b"better"),
    "foreign": lambda folder: [(folder / name).unlink() for name in (RECORD, "a.yaml")],
    "link": lambda folder: replaced(folder).symlink_to(folder.parent / "elsewhere"),
    "folder": lambda folder: replaced(folder).mkdir(),
    "record": lambda folder: (folder / RECORD).write_text('{"files": ['),
    "no record": lambda folder: (folder / RECORD).unlink(),
}


def test_what_somebody_changed_is_left_alone_with_all_the_rest(tmp_path):
    (tmp_path / "elsewhere").write_bytes(b"b")
    for name, damage in DAMAGE.items():
        folder = tmp_path / name
        write_unchanged(str(folder), CONTENTS)
        damage(folder)
        before = {name: os.lstat(folder / name).st_mtime_ns for name in os.listdir(folder)}
        with pytest.raises(ConfigError, match=r"b\.config.*name another folder with -o") as caught:
            write_unchanged(str(folder), {"a.yaml": b"new", "b.config": b"new"})
        assert caught.value.where == str(folder)
        assert {name: os.lstat(folder / name).st_mtime_ns for name in os.listdir(folder)} == before


@pytest.mark.parametrize("there", [False, True], ids=["new", "written before"])
def test_an_init_that_was_killed_is_repeated(tmp_path, there):
    """At each change of the disk: files are whole, and the next one writes them all."""
    new = {name: content * 100 for name, content in CONTENTS.items()} | {"c.png": b"c"}
    for number in range(1, 100):
        folder = tmp_path / str(number)
        if there:
            write_unchanged(str(folder), CONTENTS)
        try:
            with watched(killed_at(number)):
                write_unchanged(str(folder), new)
            break
        except KILLED:
            old = CONTENTS if there else {}
            left = contents_of(folder) if folder.exists() else {}
            whole = {name: content for name, content in left.items() if not name.endswith(".partial")}
            assert all(content in (old.get(name), new[name]) for name, content in whole.items())
        write_unchanged(str(folder), new)
        assert {**contents_of(folder), **new} == contents_of(folder)
    assert number > 5


class Writing(RuleBasedStateMachine):
    """Repeats, kills in the middle, and a user who edits, removes and adds files."""

    names = st.sampled_from(["a", "b", "c"])

    def __init__(self):
        super().__init__()
        self.root = tempfile.TemporaryDirectory()
        self.folder = os.path.join(self.root.name, "mine")
        self.of_user = {}  # what the user wrote last, which must stay
        self.version = 0

    @rule(kill_at=st.integers(1, 20))
    def write(self, kill_at):
        self.version += 1
        new = {name: f"{name}{self.version}".encode() for name in "abc"}
        try:
            with watched(killed_at(kill_at)):
                write_unchanged(self.folder, new)
        except KILLED:
            return
        except ConfigError as error:
            assert self.of_user and any(name in error.message for name in self.of_user)
            return
        assert not self.of_user
        for name, content in new.items():
            assert Path(self.folder, name).read_bytes() == content

    @rule(name=names)
    def edit(self, name):
        self.version += 1
        os.makedirs(self.folder, exist_ok=True)
        self.of_user[name] = f"user{self.version}".encode()
        Path(self.folder, name).write_bytes(self.of_user[name])

    @rule(name=names)
    def remove(self, name):
        self.of_user.pop(name, None)
        Path(self.folder, name).unlink(missing_ok=True)

    @invariant()
    def what_the_user_wrote_stays(self):
        for name, content in self.of_user.items():
            assert Path(self.folder, name).read_bytes() == content

    def teardown(self):
        self.root.cleanup()


TestWriting = Writing.TestCase
TestWriting.settings = settings(max_examples=25, stateful_step_count=12, deadline=None)
