"""Variables by name from a TensorFlow 1 checkpoint: a mapping or a list, with the global step or without."""

import logging

import numpy as np
import pytest
import tensorflow as tf

from detection_core.errors import ModelError
from detection_core.training.named_variables import restore_variables, variables_in_checkpoint
from tests.support.field_checkpoints import write_named_checkpoint, write_object_checkpoint

VALUES = {"weights": np.float32([[1, 2], [3, 4]]), "other": np.float32([5]), "global_step": np.int64(7)}


@pytest.fixture
def checkpoint(tmp_path):
    return write_named_checkpoint(VALUES, tmp_path / "model.ckpt")


def fresh():
    return {
        "weights": tf.Variable(tf.zeros([2, 2]), name="mine"),
        "other": tf.Variable(tf.zeros([3]), name="other"),
        "absent": tf.Variable(0.0, name="absent"),
        "global_step": tf.Variable(0, dtype=tf.int64, name="global_step"),
    }


def test_a_mapping_gives_a_mapping_and_what_is_there_is_restored(checkpoint, caplog):
    for step, found in ((True, {"weights", "global_step"}), (False, {"weights"})):
        variables = fresh()
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            available = variables_in_checkpoint(variables, checkpoint, include_global_step=step)
        assert set(available) == found
        assert all(available[name] is variables[name] for name in found)
        messages = [record.getMessage() for record in caplog.records]
        assert any("no variable absent" in m for m in messages)
        assert any("other is [3], found [1]" in m for m in messages)
        assert restore_variables(variables, checkpoint, include_global_step=step) == sorted(found)
        np.testing.assert_array_equal(variables["weights"], VALUES["weights"])
        assert int(variables["global_step"]) == (7 if step else 0)
        np.testing.assert_array_equal(variables["other"], np.zeros(3))


def test_a_list_goes_by_the_variables_own_names_and_other_forms_are_refused(checkpoint, tmp_path):
    variables = [tf.Variable(tf.zeros([1]), name="other"), tf.Variable(tf.zeros([2, 2]), name="mine")]
    assert variables_in_checkpoint(variables, checkpoint) == [variables[0]]
    with pytest.raises(ModelError, match="nothing"):
        restore_variables(fresh(), str(tmp_path / "nothing"))
    objects = write_object_checkpoint({"model/weights": VALUES["weights"]}, tmp_path / "objects")
    with pytest.raises(ModelError, match="object-based"):
        restore_variables(fresh(), objects)
    with pytest.raises(TypeError, match="mapping or a list"):
        variables_in_checkpoint(tf.Variable(0.0), checkpoint)  # type: ignore[type-var]
