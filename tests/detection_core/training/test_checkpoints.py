"""Checkpoints: fall-back past damaged files, leftovers of killed writers, foreign models."""

import logging
from pathlib import Path

import pytest
import tensorflow as tf

from detection_core.errors import ModelError, StorageError
from detection_core.training.checkpoints import TrainingCheckpoints
from tests.support.cases import cases
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


def flip_a_byte(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(bytes(content))


def empty(path):
    path.write_bytes(b"")


DAMAGE = [
    ("ckpt-6.index", truncate),
    ("ckpt-6.index", empty),
    ("ckpt-6.data-00000-of-00001", truncate),
    ("ckpt-6.data-00000-of-00001", flip_a_byte),
    ("ckpt-6.data-00000-of-00001", Path.unlink),
]


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
        checkpoints = TrainingCheckpoints(
            {"weights": tf.Variable(0.0)}, str(tmp_path), keep=2, keep_every_n_hours=3
        )
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
    with pytest.raises(ModelError, match="of this model"):
        other.restore_latest()
    # Damage to all is no silent start from zero.
    saved(tmp_path / "damaged", [2])
    empty(tmp_path / "damaged" / "ckpt-2.index")
    for _ in range(2):
        with pytest.raises(StorageError, match=r"all 1 are damaged .*Remove the folder"):
            make(tmp_path / "damaged")[0].restore_latest()
