"""Damage is what the bytes prove; whatever else keeps a checkpoint from being read is an error of its own."""

from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
import tensorflow as tf

from detection_core.errors import StorageError
from detection_core.training.checkpoint_damage import find_damage, readable
from tests.support.storage_faults import few_descriptors

INDEX, DATA = "ckpt-3.index", "ckpt-3.data-00000-of-00001"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The files of a checkpoint whose index has two blocks, by name."""
    folder = tmp_path_factory.mktemp("written")
    parts = {f"{'long_' * 40}{i}": tf.Variable([float(i)] * 20) for i in range(1500)}
    tf.train.Checkpoint(**parts).write(str(folder / "ckpt-3"))
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def write(folder: Path, written: dict[str, bytes], changed: str = "", content: bytes | None = None) -> str:
    """Write the checkpoint, one of its files with another content or, of None, not at all."""
    files = written | ({changed: content} if changed else {})
    for name, data in files.items():
        if data is not None:
            (folder / name).write_bytes(data)
    return str(folder / "ckpt-3")


@pytest.fixture
def prefix(tmp_path, written):
    return write(tmp_path, written)


def flipped(content, place):
    changed = bytearray(content)
    changed[int(len(content) * place)] ^= 0xFF
    return bytes(changed)


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "a byte near the beginning": lambda content: flipped(content, 0.1),
    "a byte near the end": lambda content: flipped(content, 0.9),
    "truncated by one byte": lambda content: content[:-1],
    "half of it": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "zeros": lambda content: bytes(len(content)),
    "zeros at its end": lambda content: content[: len(content) // 2] + bytes(len(content) // 2),
    "text": lambda content: b"not a checkpoint" * 100,
}


def test_a_change_of_either_file_is_damage(tmp_path, written):
    missed = [
        (what, name)
        for what, change in CHANGES.items()
        for name in (INDEX, DATA)
        if not find_damage(write(tmp_path, written, name, change(written[name])))
    ]
    assert not missed


def test_a_missing_file_is_damage_and_a_whole_checkpoint_is_not(prefix):
    assert find_damage(prefix) == ""
    (Path(prefix).parent / DATA).unlink()
    assert "without ckpt-3.data-00000-of-00001" in find_damage(prefix)
    Path(f"{prefix}.index").unlink()
    assert "No such file" in find_damage(prefix)


def refused(prefix):
    """Return why a checkpoint could not be read; fail where it was judged."""
    kept = pytest.raises(StorageError, match="It is kept, as this is no sign of damage")
    with kept as caught, readable(prefix):
        pytest.fail(f"judged: {find_damage(prefix)!r}")
    return str(caught.value)


def test_used_up_descriptors_a_disk_that_does_not_answer_and_a_folder_are_no_damage(prefix, written):
    for free in (0, 1):
        with few_descriptors(free):
            text = refused(prefix)
        assert "Too many open files" in text and "ulimit -n" in text
    assert find_damage(prefix) == ""
    for name in (INDEX, DATA):
        file = Path(prefix).parent / name
        file.unlink()
        file.symlink_to("/proc/self/mem")  # whose first bytes give EIO
        assert "Input/output error" in refused(prefix)
        file.unlink()
        file.write_bytes(written[name])
    file.unlink()
    file.mkdir()
    assert "Is a directory" in refused(prefix)


def test_what_a_file_system_or_the_reader_of_tensorflow_raises_is_no_damage(prefix, monkeypatch):
    for error in (
        tf.errors.UnavailableError(None, None, "HTTP 503: Service Unavailable"),
        tf.errors.PermissionDeniedError(None, None, "HTTP 403: no right to read"),
        tf.errors.ResourceExhaustedError(None, None, "OOM when allocating a tensor"),
        tf.errors.AbortedError(None, None, "the connection was reset"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(tf.raw_ops, "RestoreV2", Mock(side_effect=error))
            assert str(error) in refused(prefix)

    def load(path):
        # As TensorFlow's `error_translator` words it.
        raise tf.errors.DataLossError(None, None, f"Unable to open table file {path}: Too many open files")

    monkeypatch.setattr(tf.train, "load_checkpoint", load)
    assert "ulimit -n" in refused(prefix)
