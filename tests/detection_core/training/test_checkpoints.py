"""A run's checkpoints, and the names of its variables."""

import logging
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from detection_core.errors import ConfigError, ModelError, StorageError
from detection_core.training.application_weights import folded_norms, warn_of_folded_norms
from detection_core.training.checkpoints import TrainingCheckpoints
from detection_core.training.loop_options import TrainOptions
from detection_core.training.named_variables import restore_variables
from detection_core.training.variables import trained_variables
from tests.detection_core.training.runs import flip_a_byte
from tests.support.cases import cases, refused
from tests.support.field_checkpoints import write_named_checkpoint, write_object_checkpoint
from tests.support.storage_faults import few_descriptors


def make(folder, value=0.0):
    variable = tf.Variable(tf.fill([1000], value))
    return TrainingCheckpoints({"model": tf.Module(), "weights": variable}, str(folder), keep=3), variable


def saved(folder, steps):
    checkpoints, variable = make(folder)
    for step in steps:
        variable.assign(tf.fill([1000], float(step)))
        checkpoints.save(step)


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path):
    path.write_bytes(b"")


DAMAGE = [
    ("ckpt-6.index", truncate), ("ckpt-6.index", empty), ("ckpt-6.data-00000-of-00001", truncate),
    ("ckpt-6.data-00000-of-00001", flip_a_byte), ("ckpt-6.data-00000-of-00001", Path.unlink),
]  # fmt: skip


def contents(folder):
    """Return the files of all checkpoints below a folder, by name."""
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("ckpt-*.*"))}


@cases(*DAMAGE)
def test_a_damaged_checkpoint_is_moved_and_gives_way_to_the_one_before(tmp_path, caplog, *, name, damage):
    saved(tmp_path, [2, 4, 6])
    damage(tmp_path / name)
    before = contents(tmp_path)
    checkpoints, variable = make(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert checkpoints.restore_latest() == 4
    assert float(variable[0]) == 4.0
    assert any("ckpt-6 is damaged" in message for message in caplog.messages)
    assert contents(tmp_path) == before
    assert set(contents(tmp_path / "damaged" / "6-1")) == {n for n in before if n.startswith("ckpt-6.")}
    checkpoints.save(6)
    assert make(tmp_path)[0].restore_latest() == 6
    damage(tmp_path / name)
    assert make(tmp_path)[0].restore_latest() == 4
    assert (tmp_path / "damaged" / "6-2" / "ckpt-6.index").exists()


@cases((0, False), (1, False), (0, True))
def test_used_up_descriptors_cost_no_checkpoint(tmp_path, monkeypatch, *, free, while_restoring):
    saved(tmp_path, [2, 4, 6])
    before = contents(tmp_path)
    checkpoints, variable = make(tmp_path)
    if while_restoring:
        monkeypatch.setattr("detection_core.training.checkpoints.find_damage", lambda prefix: "")
    with pytest.raises(StorageError, match="Too many open files"), few_descriptors(free):
        checkpoints.restore(6)
    assert contents(tmp_path) == before
    assert checkpoints.restore_latest() == 6 and float(variable[0]) == 6.0


def test_only_own_checkpoints_are_removed_and_what_else_lies_about_does_not_matter(tmp_path):
    saved(tmp_path / "w1", [1, 2, 3])
    saved(tmp_path / "w[1]", [1, 2, 3, 4, 5])
    assert make(tmp_path / "w1")[0].steps() == [1, 2, 3]
    assert make(tmp_path / "w[1]")[0].steps() == [3, 4, 5]
    assert len(list((tmp_path / "w[1]").iterdir())) == 7
    saved(tmp_path, [2, 10])
    (tmp_path / "checkpoint").unlink()
    (tmp_path / "ckpt-12.data-00000-of-00001").write_bytes(b"written before the kill, no index yet")
    (tmp_path / "ckpt-14_temp").mkdir()
    assert make(tmp_path)[0].restore_latest() == 10


def test_one_checkpoint_every_few_hours_stays_for_good(tmp_path, monkeypatch):
    now = 1e9
    monkeypatch.setattr("detection_core.training.checkpoints.time.monotonic", lambda: now)
    for first in (1, 11):  # in two processes
        variables = {"weights": tf.Variable(0.0)}
        checkpoints = TrainingCheckpoints(variables, str(tmp_path), keep=2, keep_every_n_hours=3)
        for step in range(first, first + 10):
            now += 3600
            checkpoints.save(step)
    assert checkpoints.steps() == [3, 6, 13, 16, 19, 20]


def test_the_start_the_last_few_and_what_cannot_be_gone_on_with(tmp_path):
    checkpoints, variable = make(tmp_path, 5.0)
    assert checkpoints.restore_latest() == 0
    assert float(variable[0]) == 5.0
    saved(tmp_path, [1, 2, 3, 4, 5])
    assert make(tmp_path)[0].steps() == [3, 4, 5]
    other = TrainingCheckpoints({"other": tf.Variable(1.0)}, str(tmp_path))
    refused(ModelError, "of this model", other.restore_latest)
    # Damage to all is no silent start from zero.
    saved(tmp_path / "damaged", [2])
    empty(tmp_path / "damaged" / "ckpt-2.index")
    for _ in range(2):
        with pytest.raises(StorageError, match=r"all 1 are damaged .*Remove the folder"):
            make(tmp_path / "damaged")[0].restore_latest()


def test_a_checkpoint_that_was_being_written_gives_way_even_to_the_start(tmp_path):
    for steps, restored in (([2], 0), ([2, 4], 2)):
        folder = tmp_path / str(len(steps))
        saved(folder, steps)
        # TensorFlow removes this folder when all files are whole, and writes the index last.
        unfinished = folder / f"ckpt-{steps[-1]}_temp"
        assert not list(folder.glob("*_temp"))
        unfinished.mkdir()
        truncate(folder / f"ckpt-{steps[-1]}.index")
        for _ in range(2):
            assert make(folder)[0].restore_latest() == restored
        assert make(folder)[0].steps() == steps[:-1] and not unfinished.exists()


NAMES = ["backbone/conv/kernel", "backbone/bn/gamma", "head/kernel", "head/bias"]
VARIABLES = [tf.Variable(0.0, name=name) for name in NAMES]


def chosen(update=(), freeze=()):
    options = TrainOptions(num_steps=1, update_trainable_variables=update, freeze_variables=freeze)
    return [v.name.split(":")[0] for v in trained_variables(VARIABLES, options)]


def test_patterns_are_found_anywhere_in_a_name():
    assert chosen() == NAMES and chosen(freeze=("backbone/",)) == NAMES[2:]
    assert chosen(update=("backbone/conv", "head")) == [NAMES[0], *NAMES[2:]]
    assert chosen(update=("head",), freeze=(".*bias$",)) == ["head/kernel"]
    assert chosen(freeze=("/bn/", "bias")) == ["backbone/conv/kernel", "head/kernel"]
    assert chosen(update=("gamma",)) == ["backbone/bn/gamma"] and chosen(freeze=("^head",)) == NAMES[:2]


@cases(
    ((), ("Other",), r"freeze_variables: pattern 'Other' matches none of .* 4 .*backbone/conv/kernel"),
    (("nothing",), (), "update_trainable_variables: pattern 'nothing' matches none"),
    ((), ("(",), "expected a regular expression"),
    ((), ("head", "back"), "leave none of 4"),
)
def test_patterns_that_cannot_be_meant_are_refused(*, update, freeze, text):
    refused(ConfigError, text, chosen, update, freeze)


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


def test_a_mapping_is_restored_where_shapes_agree_and_a_list_by_its_names(checkpoint, caplog, tmp_path):
    for step, found in ((True, {"weights", "global_step"}), (False, {"weights"})):
        variables = fresh()
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            restored = restore_variables(variables, checkpoint, include_global_step=step)
        assert restored == sorted(found)
        messages = [record.getMessage() for record in caplog.records]
        assert any("no variable absent" in m for m in messages)
        assert any("other is [3], found [1]" in m for m in messages)
        np.testing.assert_array_equal(variables["weights"], VALUES["weights"])
        assert int(variables["global_step"]) == (7 if step else 0)
        np.testing.assert_array_equal(variables["other"], np.zeros(3))
    variables = [tf.Variable(tf.zeros([1]), name="other"), tf.Variable(tf.zeros([2, 2]), name="mine")]
    assert restore_variables(variables, checkpoint) == ["other"] and not variables[1].numpy().any()
    refused(ModelError, "nothing", restore_variables, fresh(), str(tmp_path / "nothing"))
    objects = write_object_checkpoint({"model/weights": VALUES["weights"]}, tmp_path / "objects")
    refused(ModelError, "object-based", restore_variables, fresh(), objects)
    with pytest.raises(TypeError, match="mapping or a list"):
        restore_variables(tf.Variable(0.0), checkpoint)  # type: ignore[type-var]


class _Detector:
    def __init__(self, **statistics):
        x = inputs = tf_keras.Input((4, 4, 3))
        for number in range(4):
            x = tf_keras.layers.BatchNormalization(name=f"norm_{number}")(x)
        self.network = tf_keras.Model(inputs, x)
        self.networks = {"network": self.network}
        for layer in self.network.layers[1:]:
            for name, value in statistics.items():
                variable = getattr(layer, name)
                variable.assign(np.full(variable.shape, value, np.float32))

    @property
    def names(self):
        return [v.name for v in self.network.variables]


def test_folded_norms_are_found_and_others_are_fine():
    model = _Detector()
    assert folded_norms(model, []) == ([], 0) and not warn_of_folded_norms(model, [], frozen=True)
    model = _Detector(gamma=1, moving_mean=0, moving_variance=0.999, beta=0.7)
    assert folded_norms(model, model.names) == ([f"norm_{n}" for n in range(4)], 4)
    assert warn_of_folded_norms(model, model.names, frozen=True)
    model = _Detector(gamma=0.9, moving_mean=0.3, moving_variance=2.0)
    assert folded_norms(model, model.names) == ([], 4)
    first = model.network.get_layer("norm_0")
    for variable, value in ((first.gamma, 1.0), (first.moving_mean, 0.0), (first.moving_variance, 1.0)):
        variable.assign(np.full(3, value, np.float32))
    assert folded_norms(model, model.names) == (["norm_0"], 4)
    assert not warn_of_folded_norms(model, model.names, frozen=True)
