import subprocess
import sys

import pytest
import tensorflow as tf

from detection_core.errors import ModelError
from detection_core.training.checkpoint_prefix import checkpoint_files, find_prefix


def test_a_folder_stands_for_its_newest_checkpoint(tmp_path):
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(v=tf.Variable(1.0)), str(tmp_path), max_to_keep=2
    )
    manager.save(checkpoint_number=1)
    manager.save(checkpoint_number=2)
    assert find_prefix(str(tmp_path)) == str(tmp_path / "ckpt-2")


def test_the_files_of_a_checkpoint_are_its_own(tmp_path):
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
