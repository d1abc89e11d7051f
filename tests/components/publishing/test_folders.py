import os

import pytest

from components.publishing.folders import VersionFolders
from detection_core.artifacts.published import IN_SERVICE, WITHDRAWN, PublishedVersion, write_version
from detection_core.errors import StorageError
from detection_core.storage import files
from tests.components.publishing.models import make_model
from tests.support.cases import cases


@pytest.fixture
def folders(tmp_path):
    return VersionFolders(str(tmp_path))


def _add(folders, number, place=IN_SERVICE, recorded=True):
    folder = make_model(folders.path(place, number), "m")
    version = PublishedVersion(number=number, files=files.sizes(folder) if recorded else {})
    write_version(folders.version_path(number), version)
    return folder


@cases((True, "variables/variables.index"), (False, "variables"))
def test_whole_is_what_has_its_recorded_files_at_their_size_or_a_graph_and_variables(
    tmp_path, *, recorded, damaged
):
    folders = VersionFolders(str(tmp_path))
    path = os.path.join(_add(folders, 5, recorded=recorded), damaged)
    assert folders.complete() == [5]
    files.write_text(path, "short") if recorded else files.remove_tree(path)
    assert folders.complete() == []


def test_a_whole_model_goes_out_of_service_and_back_and_half_a_model_does_not(folders):
    folder = _add(folders, 5)
    for out, here, gone in ((True, WITHDRAWN, IN_SERVICE), (False, IN_SERVICE, WITHDRAWN)):
        folders.move(5, out=out)
        assert folders.is_complete(here, 5) and not folders.is_complete(gone, 5)
    folders.move(5, out=True)
    files.remove_tree(os.path.join(folders.path(WITHDRAWN, 5), "saved_model.pb"))
    folders.move(5, out=False)
    assert not files.exists(folder)


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
