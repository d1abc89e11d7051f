"""Files of the cache are told from links, pipes, devices and folders without opening anything."""

import os

from detection_core.errors import ModelError
from detection_core.zoo.cache_entries import is_file, sizes
from tests.support.cases import refused
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
    (tmp_path / "link").symlink_to("/dev/zero")
    found = {"link": "a link", "part-1": "a folder", "part-1/pipe": "a named pipe", "/dev/zero": "a device"}
    for path, kind in found.items():
        refused(ModelError, f"expected a file in the cache, found {kind}", is_file, str(tmp_path / path))
