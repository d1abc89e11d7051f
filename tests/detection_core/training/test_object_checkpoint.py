"""Reads the variables of object-based TensorFlow 2 checkpoints by the path of their objects."""

import numpy as np
import pytest
import tensorflow as tf

from detection_core.errors import ModelError
from detection_core.training.checkpoint_file import CheckpointFile
from detection_core.training.object_checkpoint import ObjectCheckpoint
from tests.support.field_checkpoints import write_named_checkpoint, write_object_checkpoint

VALUES = {
    "model/a/0/kernel": np.arange(6, dtype=np.float32).reshape(2, 3),
    "model/b/bias": np.ones(2, np.float32),
}


def test_variables_are_found_by_object_path_and_others_are_foreign(tmp_path):
    checkpoint = ObjectCheckpoint(CheckpointFile(write_object_checkpoint(VALUES, tmp_path / "ckpt-0")))
    key = checkpoint.find("model/a/0/kernel")
    assert key == "model/a/0/kernel/.ATTRIBUTES/VARIABLE_VALUE"
    assert checkpoint.shapes[key] == (2, 3)
    np.testing.assert_array_equal(checkpoint.read(key), VALUES["model/a/0/kernel"])
    assert checkpoint.find("model/a/1/kernel") is None
    assert checkpoint.find("model/a") is None
    shared = tf.train.Checkpoint(kernel=tf.Variable(3.0))
    prefix = tf.train.Checkpoint(first=shared, second=shared).write(str(tmp_path / "ckpt"))
    checkpoint = ObjectCheckpoint(CheckpointFile(prefix))
    assert checkpoint.find("second/kernel") == checkpoint.find("first/kernel") is not None
    prefix = write_named_checkpoint({"other/weights": np.zeros(3, np.float32)}, tmp_path / "model.ckpt")
    with pytest.raises(ModelError, match=r"without an object graph.* set .*fine_tune_checkpoint_version: V1"):
        ObjectCheckpoint(CheckpointFile(prefix))


def test_a_slot_of_an_optimizer_is_found_by_its_variable(tmp_path):
    averages = {"model/a/0/kernel": VALUES["model/a/0/kernel"] + 1}
    checkpoint = ObjectCheckpoint(
        CheckpointFile(write_object_checkpoint(VALUES, tmp_path / "ckpt-0", averages))
    )
    key = checkpoint.find("model/a/0/kernel/.OPTIMIZER_SLOT/average")
    assert key == "model/a/0/kernel/.OPTIMIZER_SLOT/optimizer/average/.ATTRIBUTES/VARIABLE_VALUE"
    np.testing.assert_array_equal(checkpoint.read(key), averages["model/a/0/kernel"])
    assert checkpoint.find("model/a/0/kernel/.OPTIMIZER_SLOT/momentum") is None
    assert checkpoint.find("model/b/bias/.OPTIMIZER_SLOT/average") is None
    assert checkpoint.find("model/c/bias/.OPTIMIZER_SLOT/average") is None
