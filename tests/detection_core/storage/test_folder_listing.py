import errno
import os

from detection_core.errors import DataError
from detection_core.storage import folder_listing
from detection_core.storage.folder_listing import list_folder
from tests.support.cases import cases, refused


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
