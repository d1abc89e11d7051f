"""Files of the cache are told from links, pipes, devices and folders without opening anything."""

import os

import pytest

from detection_core.errors import ModelError
from detection_core.zoo.cache_entries import is_file, sizes


def test_files_and_gaps_are_told(tmp_path):
    (tmp_path / "a").write_text("x")
    assert is_file(str(tmp_path / "a")) and not is_file(str(tmp_path / "b"))
    assert not is_file(str(tmp_path / "a/below"))


@pytest.mark.parametrize("kind", ["a link", "a folder", "a named pipe", "a device"])
def test_anything_else_is_refused_by_its_name(tmp_path, kind):
    path = tmp_path / "a"
    if kind == "a device":
        path = "/dev/zero"
    elif kind == "a named pipe":
        os.mkfifo(path)
    elif kind == "a link":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    with pytest.raises(ModelError, match=f"expected a file in the cache, found {kind}"):
        is_file(str(path))


def test_links_are_listed_and_not_followed(tmp_path):
    (tmp_path / "below").mkdir()
    (tmp_path / "below/a").write_text("xyz")
    (tmp_path / "below/loop").symlink_to("..")
    os.mkfifo(tmp_path / "pipe")
    assert sizes(str(tmp_path)) == {"below/a": 3, "below/loop": -1, "pipe": -1}
