"""The files of a checkpoint, checked when opened."""

import pathlib
import shutil

import numpy as np
import pytest

from detection_core.errors import ModelError
from detection_core.storage import files
from detection_core.training.checkpoint_file import CheckpointFile
from tests.support.cases import cases
from tests.support.field_checkpoints import write_named_checkpoint
from tests.support.object_store import s3_server

VALUES = {f"scope/{number}/weights": np.random.rand(60, 60).astype(np.float32) for number in range(4)}


@pytest.fixture
def prefix(tmp_path):
    return write_named_checkpoint(VALUES, tmp_path / "model.ckpt-3")


def _read_all(path):
    checkpoint = CheckpointFile(path)
    for key in checkpoint.shapes:
        checkpoint.read(key)


def test_every_file_of_a_checkpoint_stands_for_it_also_on_an_object_store(prefix, tmp_path):
    for suffix in ("", ".index", ".data-00000-of-00001"):
        checkpoint = CheckpointFile(prefix + suffix)
        assert checkpoint.prefix == prefix
        assert checkpoint.shapes == {name: (60, 60) for name in VALUES}
        np.testing.assert_array_equal(checkpoint.read("scope/2/weights"), VALUES["scope/2/weights"])
    with s3_server() as bucket:
        for path in pathlib.Path(prefix).parent.iterdir():
            files.copy_file(str(path), f"{bucket}/zoo/{path.name}")
        checkpoint = CheckpointFile(f"{bucket}/zoo")
        assert checkpoint.prefix == f"{bucket}/zoo/model.ckpt-3"
    np.testing.assert_array_equal(checkpoint.read("scope/1/weights"), VALUES["scope/1/weights"])
    path = write_named_checkpoint(VALUES, tmp_path / "resnet_v1_50.ckpt", single_file=True)
    assert [p.name for p in tmp_path.glob("resnet*")] == ["resnet_v1_50.ckpt"]
    np.testing.assert_array_equal(CheckpointFile(path).read("scope/0/weights"), VALUES["scope/0/weights"])


@cases("nothing", ".", "ckpt-0.index")
def test_a_missing_checkpoint_is_an_error(tmp_path, *, path):
    with pytest.raises(ModelError, match=r"^\S+: expected a checkpoint, .*found none; give the prefix"):
        CheckpointFile(str(tmp_path / path))


def test_files_that_are_missing_are_named(prefix):
    shutil.move(f"{prefix}.data-00000-of-00001", f"{prefix}.data-00001-of-00003")
    message = "expected 3 data files .* found 1, without model.ckpt-3.data-00000-of-00003"
    with pytest.raises(ModelError, match=message):
        CheckpointFile(prefix)
    pathlib.Path(f"{prefix}.data-00001-of-00003").unlink()
    message = (
        r"^\S+model.ckpt-3: expected 1 data file .* found 0, without model.ckpt-3.data-00000-of-00001; copy"
    )
    with pytest.raises(ModelError, match=message):
        CheckpointFile(prefix)


def test_what_is_truncated_or_no_checkpoint_is_an_error(prefix, tmp_path):
    for suffix in (".index", ".data-00000-of-00001"):
        file = pathlib.Path(prefix + suffix)
        whole = file.read_bytes()
        file.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(ModelError, match=r"^\S+model.ckpt-3: .*damaged or truncated.*copy it again"):
            _read_all(prefix)
        file.write_bytes(whole)
    (tmp_path / "weights.h5").write_bytes(b"something else" * 100)
    with pytest.raises(ModelError, match="damaged or truncated"):
        _read_all(str(tmp_path / "weights.h5"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "checkpoint").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ModelError, match="expected a checkpoint"):
        CheckpointFile(str(tmp_path / "other"))
