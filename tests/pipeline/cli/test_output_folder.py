import os
from pathlib import Path

import pytest

from detection_core.errors import ConfigError
from detection_core.storage import files
from pipeline.cli.output_folder import output_folder
from tests.support.object_store import s3_server


def test_a_local_folder_is_written_as_it_is_and_one_that_cannot_be_made_is_one_message(tmp_path):
    with output_folder(str(tmp_path / "new")) as folder:
        assert folder == str(tmp_path / "new") and os.path.isdir(folder)
    (tmp_path / "file").touch()
    refused = pytest.raises(ConfigError, match="cannot make the output folder")
    with refused, output_folder(str(tmp_path / "file" / "x")):
        pass


def test_an_object_store_gets_everything_at_the_end_and_nothing_of_a_failure():
    with s3_server() as bucket:
        with output_folder(f"{bucket}/made") as folder:
            files.write_text(f"{folder}/deep/a", "one")
            assert not files.exists(f"{bucket}/made")
        assert files.read_text(f"{bucket}/made/deep/a") == "one"
        assert not os.path.exists(folder)
        with pytest.raises(RuntimeError), output_folder(f"{bucket}/failed") as folder:
            files.write_text(f"{folder}/a", "one")
            raise RuntimeError
        assert not files.exists(f"{bucket}/failed") and not os.path.exists(folder)


def test_a_folder_is_as_it_was_where_nothing_unfinished_is_to_stay(tmp_path):
    kept = tmp_path / "there"
    kept.mkdir()
    (kept / "mine").write_text("x")
    for folder in (tmp_path / "new", kept):
        with pytest.raises(ZeroDivisionError), output_folder(str(folder), keep_unfinished=False) as output:
            (Path(output) / "model").mkdir()
            (Path(output) / "native.log").write_text("x")
            _ = 1 / 0
    assert [path.name for path in tmp_path.rglob("*")] == ["there", "mine"]
    with output_folder(str(tmp_path / "new"), keep_unfinished=False) as output:
        (Path(output) / "model").mkdir()
    assert (tmp_path / "new" / "model").is_dir()
