import os
import zipfile

import pytest

from detection_core.errors import ConfigError, DataError
from pipeline.init.unpacked_data import unpacked


def _zip(path, text):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("set/a.txt", text)
    return str(path)


def test_an_archive_is_unpacked_once(tmp_path):
    archive = _zip(tmp_path / "a.zip", "one")
    with unpacked(archive, str(tmp_path / "mine")) as data:
        assert data == str(tmp_path / "mine" / "data")
        assert (tmp_path / "mine" / "data" / "set" / "a.txt").read_text() == "one"
    before = os.stat(os.path.join(data, "set", "a.txt"))
    with unpacked(archive, str(tmp_path / "mine")) as data:
        assert os.stat(os.path.join(data, "set", "a.txt")) == before
    another = unpacked(_zip(tmp_path / "b.zip", "two"), str(tmp_path / "mine"))
    with pytest.raises(ConfigError, match="found others"), another:
        pass
    with unpacked(str(tmp_path), "mine") as data:
        assert data == str(tmp_path)


def test_what_is_no_data_set_does_not_stay(tmp_path):
    found = unpacked(_zip(tmp_path / "a.zip", "x"), str(tmp_path / "mine"))
    with pytest.raises(DataError, match="nothing in it"), found:
        raise DataError("nothing in it")
    assert os.listdir(tmp_path) == ["a.zip"]
