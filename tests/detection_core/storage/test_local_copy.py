import os

import pytest

from detection_core.storage import files
from detection_core.storage.local_copy import local_copy
from tests.support.object_store import s3_server


def test_a_local_path_and_one_that_tensorflow_opens_are_taken_as_they_are(tmp_path):
    for path in (str(tmp_path), "gs://bucket/model"):
        with local_copy(path) as here:
            assert here == path


def test_files_and_folders_of_s3_are_here_for_the_length_of_the_block():
    with s3_server() as bucket:
        files.write_text(f"{bucket}/model/variables/a", "one")
        files.write_text(f"{bucket}/model/b.tflite", "two")
        with local_copy(f"{bucket}/model/") as here:
            assert os.path.basename(here) == "model"
            assert files.read_text(f"{here}/variables/a") == "one"
        assert not os.path.exists(here)
        with local_copy(f"{bucket}/model/b.tflite") as here:
            assert here.endswith("/b.tflite") and files.read_text(here) == "two"
        with pytest.raises(FileNotFoundError), local_copy(f"{bucket}/nothing"):
            pass
