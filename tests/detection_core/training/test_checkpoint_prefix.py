"""Which files a path to a checkpoint means, resolved without TensorFlow."""

import subprocess
import sys

import pytest
import tensorflow as tf

from detection_core.errors import ModelError
from detection_core.training.checkpoint_prefix import checkpoint_files, find_prefix
from tests.support.cases import cases


def test_a_folder_stands_for_its_newest_checkpoint_and_that_has_its_own_files(tmp_path):
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(v=tf.Variable(1.0)), str(tmp_path), max_to_keep=2
    )
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
    with pytest.raises(ModelError, match="found none; give the prefix"):
        find_prefix(str(folder / "ckpt-2"))


def test_a_checkpoint_is_found_without_tensorflow():
    program = (
        "import sys; from detection_core.tasks.starting_files import starting_files;"
        " print(starting_files('', ''), 'tensorflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[] False\n"


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
    with pytest.raises(ModelError, match=r"found a SavedModel; .*--warm-start"):
        find_prefix(str(tmp_path / path))
    (tmp_path / "efficientdet" / "checkpoint").mkdir(parents=True)
    with pytest.raises(ModelError, match=r"give \S+/efficientdet/checkpoint$"):
        find_prefix(str(tmp_path / "efficientdet"))
