"""Files of checkpoints: names, content, formats and damage."""

import shutil
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import tensorflow as tf

from detection_core.detectors.checkpoint_names import CheckpointNames, Naming
from detection_core.errors import ModelError, StorageError
from detection_core.families.ssd.checkpoint_names import checkpoint_names
from detection_core.storage import files
from detection_core.training.checkpoint_file import CheckpointFile, find_damage, readable
from detection_core.training.checkpoint_prefix import checkpoint_files, find_prefix
from detection_core.training.checkpoint_variables import (
    DETECTOR,
    NamedCheckpoint,
    ObjectCheckpoint,
    checkpoint_content,
)
from tests.support.cases import cases, refused
from tests.support.command_line import run_python
from tests.support.field_checkpoints import write_named_checkpoint, write_object_checkpoint
from tests.support.object_store import s3_server
from tests.support.storage_faults import few_descriptors

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
        assert checkpoint.prefix == prefix and checkpoint.shapes == {name: (60, 60) for name in VALUES}
        np.testing.assert_array_equal(checkpoint.read("scope/2/weights"), VALUES["scope/2/weights"])
    with s3_server() as bucket:
        for path in Path(prefix).parent.iterdir():
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


def test_what_is_truncated_incomplete_or_no_checkpoint_is_an_error(prefix, tmp_path):
    for suffix in (".index", ".data-00000-of-00001"):
        file = Path(prefix + suffix)
        whole = file.read_bytes()
        file.write_bytes(whole[: len(whole) // 2])
        refused(ModelError, r"^\S+model.ckpt-3: .*damaged or truncated.*copy it again", _read_all, prefix)
        file.write_bytes(whole)
    (tmp_path / "weights.h5").write_bytes(b"something else" * 100)
    refused(ModelError, "damaged or truncated", _read_all, str(tmp_path / "weights.h5"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "checkpoint").write_bytes(b"\xff\xfe\x00")
    refused(ModelError, "expected a checkpoint", CheckpointFile, str(tmp_path / "other"))
    shutil.move(f"{prefix}.data-00000-of-00001", f"{prefix}.data-00001-of-00003")
    message = "expected 3 data files .* found 1, without model.ckpt-3.data-00000-of-00003"
    refused(ModelError, message, CheckpointFile, prefix)
    Path(f"{prefix}.data-00001-of-00003").unlink()
    message = f"^{prefix}: expected 1 data file .* found 0, without model.ckpt-3.data-00000-of-00001; copy"
    refused(ModelError, message, CheckpointFile, prefix)


def test_the_format_chooses_the_names_and_tensorflow_1_has_its_own_heads(tmp_path):
    names = ("FeatureExtractor/MobilenetV1/Conv2d_0/weights", "BoxPredictor_0/ClassPredictor/weights")
    values = {name: np.zeros(1, np.float32) for name in names}
    prefix = write_named_checkpoint(values, tmp_path / "model.ckpt")
    content = checkpoint_content(CheckpointFile(prefix), checkpoint_names())
    assert (content.named, content.of, content.heads, content.variables) == (True, DETECTOR, True, 2)
    assert content.text() == "a detector's checkpoint with heads (name-based, TensorFlow 1, 2 values)"
    about = {"kinds": {}, "classifier": ("c/",), "heads": "heads"}
    objects, named = (Naming(detector=detector, **about) for detector in ("model/", "Model/"))
    names = CheckpointNames(object_based=objects, name_based=named)
    assert names.naming(named=False) is objects and names.naming(named=True) is named


def test_a_folder_stands_for_its_newest_checkpoint_and_that_has_its_own_files(tmp_path):
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    manager = tf.train.CheckpointManager(checkpoint, str(tmp_path), max_to_keep=2)
    manager.save(checkpoint_number=1)
    manager.save(checkpoint_number=2)
    assert find_prefix(str(tmp_path)) == str(tmp_path / "ckpt-2")
    folder = tmp_path / "a[1]"
    folder.mkdir()
    for name in ("ckpt-1.index", "ckpt-1.data-00000-of-00001", "ckpt-10.index", "checkpoint"):
        (folder / name).touch()
    prefix = find_prefix(str(folder / "ckpt-1"))
    assert checkpoint_files(prefix) == [f"{prefix}.data-00000-of-00001", f"{prefix}.index"]
    (folder / "old.ckpt").touch()
    assert checkpoint_files(find_prefix(str(folder / "old.ckpt"))) == [str(folder / "old.ckpt")]
    refused(ModelError, "found none; give the prefix", find_prefix, str(folder / "ckpt-2"))


def test_a_checkpoint_is_found_without_tensorflow():
    program = (
        "import sys; from detection_core.tasks.fitting.starting_files import starting_files;"
        " print(starting_files('', ''), 'tensorflow' in sys.modules)"
    )
    assert run_python(program).stdout == "[] False\n"


OTHERS = [
    ("model.tflite", b"\x1c\0\0\0TFL3\x14", "a TensorFlow Lite file; it runs with `detflow predict`"),
    ("weights.h5", b"\x89HDF\r\n\x1a\n", "Keras weights"),
    ("model.keras", b"PK\x03\x04\x14", "a zip archive"),
    ("model.pt", b"PK\x03\x04\0", "as Keras and PyTorch write"),
    ("old.pth", b"\x80\x02\x8a\n", "a pickle"),
    ("model.tar.gz", b"\x1f\x8b\x08\0", "a compressed archive; unpack it"),
    ("frozen_inference_graph.pb", b"\n\x0f\n\x05", "a model's graph"),
]


@cases(*OTHERS)
def test_what_is_no_checkpoint_is_called_what_it_is(tmp_path, *, name, begin, message):
    (tmp_path / name).write_bytes(begin + bytes(100))
    with pytest.raises(ModelError, match=f"expected a checkpoint, found .*{message}") as raised:
        find_prefix(str(tmp_path / name))
    assert "copy it again" not in str(raised.value)


@cases("", "saved_model.pb")
def test_a_saved_model_and_the_folder_above_a_checkpoint_s_are_called_so(tmp_path, *, path):
    (tmp_path / "saved_model.pb").write_bytes(b"\x08\x01")
    refused(ModelError, r"found a SavedModel; .*--warm-start", find_prefix, str(tmp_path / path))
    (tmp_path / "efficientdet" / "checkpoint").mkdir(parents=True)
    refused(ModelError, r"give \S+/efficientdet/checkpoint$", find_prefix, str(tmp_path / "efficientdet"))


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
def whole(tmp_path, written):
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


def test_a_missing_or_changed_file_is_damage_and_a_whole_checkpoint_is_not(whole, tmp_path, written):
    assert find_damage(whole) == ""
    (Path(whole).parent / DATA).unlink()
    assert "without ckpt-3.data-00000-of-00001" in find_damage(whole)
    Path(f"{whole}.index").unlink()
    assert "No such file" in find_damage(whole)
    missed = [
        (what, name)
        for what, change in CHANGES.items()
        for name in (INDEX, DATA)
        if not find_damage(write(tmp_path, written, name, change(written[name])))
    ]
    assert not missed


def kept_because(whole):
    """Return why a checkpoint could not be read; fail where it was judged."""
    kept = pytest.raises(StorageError, match="It is kept, as this is no sign of damage")
    with kept as caught, readable(whole):
        pytest.fail(f"judged: {find_damage(whole)!r}")
    return str(caught.value)


def test_used_up_descriptors_a_disk_that_does_not_answer_and_a_folder_are_no_damage(whole, written):
    for free in (0, 1):
        with few_descriptors(free):
            text = kept_because(whole)
        assert "Too many open files" in text and "ulimit -n" in text
    assert find_damage(whole) == ""
    for name in (INDEX, DATA):
        file = Path(whole).parent / name
        file.unlink()
        file.symlink_to("/proc/self/mem")  # whose first bytes give EIO
        assert "Input/output error" in kept_because(whole)
        file.unlink()
        file.write_bytes(written[name])
    file.unlink()
    file.mkdir()
    assert "Is a directory" in kept_because(whole)


def test_what_a_file_system_or_the_reader_of_tensorflow_raises_is_no_damage(whole, monkeypatch):
    for error in (
        tf.errors.UnavailableError(None, None, "HTTP 503: Service Unavailable"),
        tf.errors.PermissionDeniedError(None, None, "HTTP 403: no right to read"),
        tf.errors.ResourceExhaustedError(None, None, "OOM when allocating a tensor"),
        tf.errors.AbortedError(None, None, "the connection was reset"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(tf.raw_ops, "RestoreV2", Mock(side_effect=error))
            assert str(error) in kept_because(whole)

    def load(path):
        # As TensorFlow's `error_translator` words it.
        raise tf.errors.DataLossError(None, None, f"Unable to open table file {path}: Too many open files")

    monkeypatch.setattr(tf.train, "load_checkpoint", load)
    assert "ulimit -n" in kept_because(whole)


OBJECTS = {"model/a/0/kernel": np.arange(6, dtype=np.float32).reshape(2, 3)}
OBJECTS |= {"model/b/bias": np.ones(2, np.float32)}


def test_variables_and_slots_are_found_by_object_path_and_others_are_foreign(tmp_path):
    checkpoint = ObjectCheckpoint(CheckpointFile(write_object_checkpoint(OBJECTS, tmp_path / "ckpt-0")))
    key = checkpoint.find("model/a/0/kernel")
    assert key == "model/a/0/kernel/.ATTRIBUTES/VARIABLE_VALUE" and checkpoint.shapes[key] == (2, 3)
    np.testing.assert_array_equal(checkpoint.read(key), OBJECTS["model/a/0/kernel"])
    assert checkpoint.find("model/a/1/kernel") is None and checkpoint.find("model/a") is None
    shared = tf.train.Checkpoint(kernel=tf.Variable(3.0))
    prefix = tf.train.Checkpoint(first=shared, second=shared).write(str(tmp_path / "ckpt"))
    checkpoint = ObjectCheckpoint(CheckpointFile(prefix))
    assert checkpoint.find("second/kernel") == checkpoint.find("first/kernel") is not None
    prefix = write_named_checkpoint({"other/weights": np.zeros(3, np.float32)}, tmp_path / "model.ckpt")
    with pytest.raises(ModelError, match=r"without an object graph.* set .*fine_tune_checkpoint_version: V1"):
        ObjectCheckpoint(CheckpointFile(prefix))
    averages = {"model/a/0/kernel": OBJECTS["model/a/0/kernel"] + 1}
    path = write_object_checkpoint(OBJECTS, tmp_path / "ckpt-1", averages)
    checkpoint = ObjectCheckpoint(CheckpointFile(path))
    key = checkpoint.find("model/a/0/kernel/.OPTIMIZER_SLOT/average")
    assert key == "model/a/0/kernel/.OPTIMIZER_SLOT/optimizer/average/.ATTRIBUTES/VARIABLE_VALUE"
    np.testing.assert_array_equal(checkpoint.read(key), averages["model/a/0/kernel"])
    assert checkpoint.find("model/a/0/kernel/.OPTIMIZER_SLOT/momentum") is None
    assert checkpoint.find("model/b/bias/.OPTIMIZER_SLOT/average") is None
    assert checkpoint.find("model/c/bias/.OPTIMIZER_SLOT/average") is None


NAMED = {"MobilenetV1/Conv2d_0/weights": np.ones((3, 3, 3, 8), np.float32)}


def test_variables_are_found_by_any_of_their_names_and_object_based_checkpoints_refused(tmp_path):
    checkpoint = NamedCheckpoint(CheckpointFile(write_named_checkpoint(NAMED, tmp_path / "model.ckpt")))
    (name,) = NAMED
    assert checkpoint.find(name) == name and checkpoint.find("MobilenetV1/Conv2d_1/weights") is None
    np.testing.assert_array_equal(checkpoint.read(name), NAMED[name])
    prefix = write_object_checkpoint({"model/kernel": np.zeros(3, np.float32)}, tmp_path / "ckpt-0")
    with pytest.raises(ModelError, match=r"found an object-based one .* set .*_version: V2"):
        NamedCheckpoint(CheckpointFile(prefix))
    values = dict.fromkeys(("a_1", "b_1", "b_2", "c", "d"), np.ones(2, np.float32))
    file = CheckpointFile(write_named_checkpoint(values, tmp_path / "other.ckpt"))
    stored = {"a": ["a_1"], "b": ["b_2", "b_1"], "c": []}
    checkpoint = NamedCheckpoint(file, lambda names: stored if set(names) == set(values) else {})
    assert [checkpoint.find(name) for name in "abcde"] == ["a_1", None, None, "d", None]
    assert [checkpoint.candidates(name) for name in "abcd"] == [(), ("b_1", "b_2"), (), ()]
