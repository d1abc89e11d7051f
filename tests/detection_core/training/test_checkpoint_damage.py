"""Damage is what the bytes prove; whatever else keeps a checkpoint from being read is an error of its own."""

from collections.abc import Callable
from pathlib import Path

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


@pytest.fixture
def prefix(tmp_path, written):
    for name, content in written.items():
        (tmp_path / name).write_bytes(content)
    return str(tmp_path / "ckpt-3")


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


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize("name", [INDEX, DATA])
def test_a_change_of_either_file_is_damage(prefix, name, change):
    file = Path(prefix).parent / name
    file.write_bytes(change(file.read_bytes()))
    assert find_damage(prefix)


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


@pytest.mark.parametrize("free", [0, 1])
def test_used_up_descriptors_are_no_damage(prefix, free):
    with few_descriptors(free):
        text = refused(prefix)
    assert "Too many open files" in text and "ulimit -n" in text
    assert find_damage(prefix) == ""


@pytest.mark.parametrize("name", [INDEX, DATA])
def test_a_disk_that_does_not_answer_is_no_damage(prefix, name):
    file = Path(prefix).parent / name
    file.unlink()
    file.symlink_to("/proc/self/mem")  # whose first bytes give EIO
    assert "Input/output error" in refused(prefix)


def test_a_folder_in_place_of_a_file_is_no_damage(prefix):
    file = Path(prefix).parent / DATA
    file.unlink()
    file.mkdir()
    assert "Is a directory" in refused(prefix)


@pytest.mark.parametrize(
    "error",
    [
        tf.errors.UnavailableError(None, None, "HTTP 503: Service Unavailable"),
        tf.errors.PermissionDeniedError(None, None, "HTTP 403: no right to read"),
        tf.errors.ResourceExhaustedError(None, None, "OOM when allocating a tensor"),
        tf.errors.AbortedError(None, None, "the connection was reset"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_a_file_system_of_tensorflow_raises_is_no_damage(prefix, monkeypatch, error):
    def restore(**arguments):
        raise error

    monkeypatch.setattr(tf.raw_ops, "RestoreV2", restore)
    assert str(error) in refused(prefix)


def test_an_index_that_the_reader_in_python_cannot_open_is_no_damage(prefix, monkeypatch):
    def load(path):
        # As TensorFlow's `error_translator` words it.
        raise tf.errors.DataLossError(None, None, f"Unable to open table file {path}: Too many open files")

    monkeypatch.setattr(tf.train, "load_checkpoint", load)
    assert "ulimit -n" in refused(prefix)
