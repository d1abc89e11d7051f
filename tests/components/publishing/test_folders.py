import os

import pytest

from components.publishing.folders import VersionFolders
from detection_core.artifacts.published import IN_SERVICE, WITHDRAWN, PublishedVersion, write_version
from detection_core.errors import StorageError
from detection_core.storage import files
from tests.components.publishing.models import make_model


@pytest.fixture
def folders(tmp_path):
    return VersionFolders(str(tmp_path))


def _add(folders, number, place=IN_SERVICE, recorded=True):
    folder = make_model(folders.path(place, number), "m")
    version = PublishedVersion(number=number, files=files.sizes(folder) if recorded else {})
    write_version(folders.version_path(number), version)
    return folder


def test_whole_is_what_has_every_recorded_file_at_its_size(folders):
    folder = _add(folders, 5)
    assert folders.complete() == [5]
    files.write_text(os.path.join(folder, "variables", "variables.index"), "short")
    assert folders.complete() == []


def test_a_version_without_recorded_files_needs_a_graph_and_variables(folders):
    folder = _add(folders, 5, recorded=False)
    assert folders.complete() == [5]
    files.remove_tree(os.path.join(folder, "variables"))
    assert folders.complete() == []


def test_out_of_service_and_back(folders):
    _add(folders, 5)
    folders.move(5, out=True)
    assert not folders.is_complete(IN_SERVICE, 5) and folders.is_complete(WITHDRAWN, 5)
    folders.move(5, out=False)
    assert folders.is_complete(IN_SERVICE, 5) and not folders.is_complete(WITHDRAWN, 5)


def test_half_a_model_does_not_come_back_in_service(folders):
    files.remove_tree(os.path.join(_add(folders, 5, WITHDRAWN), "saved_model.pb"))
    folders.move(5, out=False)
    assert not files.exists(folders.path(IN_SERVICE, 5))


def test_the_number_of_anything_here_counts(folders):
    _add(folders, 5)
    make_model(folders.path(IN_SERVICE, 90), "somebody else's")
    assert folders.newest_number() == 90 and folders.numbers() == [5]


def test_tidying_removes_what_no_version_owns_and_leaves_what_others_put_there(folders, caplog):
    _add(folders, 5)
    make_model(folders.path(IN_SERVICE, 4), "somebody else's")
    make_model(folders.path("tflite", 3), "of a killed push")
    make_model(folders.path(IN_SERVICE, ".7.0123abcd.partial"), "of a killed push")
    folders.tidy()
    assert os.listdir(folders.path("tflite")) == []
    assert sorted(os.listdir(folders.path(IN_SERVICE))) == ["4", "5"]
    assert "was not published by detflow" in caplog.text


def test_a_file_in_place_of_a_folder_is_named(folders):
    files.write_text(folders.path("versions"), "x")
    with pytest.raises(StorageError, match="expected a folder, found a file"):
        folders.numbers()


def test_a_folder_that_comes_while_a_reader_looks_for_it_is_no_file(folders, monkeypatch):
    def looks_before_it_comes(path, is_dir=files.is_dir):
        found = is_dir(path)
        files.make_dirs(path)
        return found

    monkeypatch.setattr(files, "is_dir", looks_before_it_comes)
    assert folders.numbers() == []
