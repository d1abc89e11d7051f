"""Files of the cache are told from links, pipes, devices and folders without opening anything."""

import os

from detection_core.errors import ModelError
from detection_core.zoo.cache_entries import is_file, sizes
from tests.support.cases import cases, refused
from tests.support.dataset_files import subfolder


def test_files_gaps_and_links_are_told_and_not_followed(tmp_path):
    (tmp_path / "a").write_text("x")
    assert is_file(str(tmp_path / "a")) and not is_file(str(tmp_path / "b"))
    assert not is_file(str(tmp_path / "a/below"))
    below = subfolder(tmp_path, 1)
    (below / "below").mkdir()
    (below / "below/a").write_text("xyz")
    (below / "below/loop").symlink_to("..")
    os.mkfifo(below / "pipe")
    assert sizes(str(below)) == {"below/a": 3, "below/loop": -1, "pipe": -1}


@cases("a link", "a folder", "a named pipe", "a device")
def test_anything_else_is_refused_by_its_name(tmp_path, *, kind):
    path = tmp_path / "a"
    if kind == "a device":
        path = "/dev/zero"
    elif kind == "a named pipe":
        os.mkfifo(path)
    elif kind == "a link":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    refused(ModelError, f"expected a file in the cache, found {kind}", is_file, str(path))
