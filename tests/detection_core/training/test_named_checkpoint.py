"""Reads the variables of name-based TensorFlow 1 checkpoints."""

import numpy as np
import pytest

from detection_core.errors import ModelError
from detection_core.training.checkpoint_file import CheckpointFile
from detection_core.training.named_checkpoint import NamedCheckpoint
from tests.support.field_checkpoints import write_named_checkpoint, write_object_checkpoint

VALUES = {"MobilenetV1/Conv2d_0/weights": np.ones((3, 3, 3, 8), np.float32)}


def test_variables_are_found_by_name_and_read_and_object_based_checkpoints_refused(tmp_path):
    checkpoint = NamedCheckpoint(CheckpointFile(write_named_checkpoint(VALUES, tmp_path / "model.ckpt")))
    (name,) = VALUES
    assert checkpoint.find(name) == name and checkpoint.find("MobilenetV1/Conv2d_1/weights") is None
    np.testing.assert_array_equal(checkpoint.read(name), VALUES[name])
    prefix = write_object_checkpoint({"model/kernel": np.zeros(3, np.float32)}, tmp_path / "ckpt-0")
    with pytest.raises(ModelError, match=r"found an object-based one .* set .*_version: V2"):
        NamedCheckpoint(CheckpointFile(prefix))


def test_a_variable_is_found_under_the_name_that_the_checkpoint_has_for_it(tmp_path):
    values = dict.fromkeys(("a_1", "b_1", "b_2", "c", "d"), np.ones(2, np.float32))
    file = CheckpointFile(write_named_checkpoint(values, tmp_path / "model.ckpt"))
    stored = {"a": ["a_1"], "b": ["b_2", "b_1"], "c": []}
    checkpoint = NamedCheckpoint(file, lambda names: stored if set(names) == set(values) else {})
    assert [checkpoint.find(name) for name in "abcde"] == ["a_1", None, None, "d", None]
    assert [checkpoint.candidates(name) for name in "abcd"] == [(), ("b_1", "b_2"), (), ()]
