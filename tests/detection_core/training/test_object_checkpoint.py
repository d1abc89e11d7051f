import pathlib

import numpy as np
import pytest
import tensorflow as tf

from detection_core.errors import ModelError
from detection_core.training.object_checkpoint import ObjectCheckpoint
from tests.detection_core.training.field_checkpoints import write_object_checkpoint

VALUES = {
    "model/a/0/kernel": np.arange(6, dtype=np.float32).reshape(2, 3),
    "model/b/bias": np.ones(2, np.float32),
}


def test_variables_are_found_by_object_path_and_read(tmp_path):
    checkpoint = ObjectCheckpoint(write_object_checkpoint(VALUES, tmp_path / "ckpt-0"))
    key = checkpoint.find("model/a/0/kernel")
    assert key == "model/a/0/kernel/.ATTRIBUTES/VARIABLE_VALUE"
    assert checkpoint.shapes[key] == (2, 3)
    np.testing.assert_array_equal(checkpoint.read(key), VALUES["model/a/0/kernel"])
    assert checkpoint.find("model/a/1/kernel") is None
    assert checkpoint.find("model/a") is None


def test_a_variable_with_two_paths_is_found_by_both(tmp_path):
    shared = tf.train.Checkpoint(kernel=tf.Variable(3.0))
    prefix = tf.train.Checkpoint(first=shared, second=shared).write(str(tmp_path / "ckpt"))
    checkpoint = ObjectCheckpoint(prefix)
    assert checkpoint.find("second/kernel") == checkpoint.find("first/kernel") is not None


def test_a_folder_stands_for_its_newest_checkpoint(tmp_path):
    root = tf.train.Checkpoint(model=tf.train.Checkpoint(v=tf.Variable(1.0)))
    manager = tf.train.CheckpointManager(root, str(tmp_path), max_to_keep=2)
    manager.save(checkpoint_number=1)
    manager.save(checkpoint_number=2)
    assert ObjectCheckpoint(str(tmp_path)).prefix == str(tmp_path / "ckpt-2")
    assert ObjectCheckpoint(str(tmp_path / "ckpt-1.index")).prefix == str(tmp_path / "ckpt-1")


def test_a_missing_checkpoint_is_an_error(tmp_path):
    with pytest.raises(ModelError, match=r"expected a checkpoint, .*found none"):
        ObjectCheckpoint(str(tmp_path / "nothing"))
    with pytest.raises(ModelError, match="found none"):
        ObjectCheckpoint(str(tmp_path))


def test_a_checkpoint_without_objects_is_foreign(tmp_path):
    prefix = str(tmp_path / "model.ckpt")
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=["FeatureExtractor/weights"],
        shape_and_slices=[""],
        tensors=[tf.zeros([3])],
    )
    with pytest.raises(ModelError, match="without an object graph"):
        ObjectCheckpoint(prefix)


@pytest.mark.parametrize("suffix", [".index", ".data-00000-of-00001"])
def test_a_truncated_checkpoint_is_an_error(tmp_path, suffix):
    values = {f"model/{number}/kernel": np.random.rand(50, 50).astype(np.float32) for number in range(3)}
    prefix = write_object_checkpoint(values, tmp_path / "ckpt-0")
    file = pathlib.Path(prefix + suffix)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(ModelError, match="damaged or truncated"):
        checkpoint = ObjectCheckpoint(prefix)
        for key in checkpoint.shapes:
            checkpoint.read(key)
