"""A training in a group with little memory: the batch is computed in parts, where the kernel would kill it.

Needs the right to make a group: root, and a control-group file system that can be written.
"""

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

pytestmark = pytest.mark.faults

_LIMIT = 2 << 30
# An image's activations are some 100 MB: 1,600 MB for the whole batch, beside the gigabyte of the code.
_PROGRAM = """
import sys
from pathlib import Path
from detection_core.training.memory import keep_host_memory
keep_host_memory()
import tensorflow as tf
from tests.support.quadrants import QUADRANT_FAMILY, QuadrantDetector
from tests.detection_core.tasks.hungry_training import train_hungry
from detection_core.detectors.family import register_family

losses = QuadrantDetector.losses

def large(self, batch, training):
    pixels = tf.reshape(batch.images.pixels, [batch.images.pixels.shape[0], -1])[:, :1]
    activations = tf.sin(tf.tile(pixels, [1, 25_000_000]) * self.trainable_variables[0][0, 0, 0, 0])
    return {name: loss + tf.reduce_mean(activations) for name, loss in losses(self, batch, training).items()}

QuadrantDetector.losses = large
register_family(QUADRANT_FAMILY)
_, result = train_hungry(Path(sys.argv[1]), batch_size=16, gradient_accumulation_steps=0)
print("parts", result.gradient_accumulation_steps, "steps", result.step)
"""


@contextlib.contextmanager
def memory_group():
    """Make a group of processes that may hold `_LIMIT` bytes; give the file that takes a process in."""
    roots = {"/sys/fs/cgroup/memory": "memory.limit_in_bytes", "/sys/fs/cgroup": "memory.max"}
    for root, limit in roots.items():
        folder = Path(root, f"detflow-{uuid.uuid4().hex}")
        try:
            folder.mkdir()
            (folder / limit).write_text(str(_LIMIT))
        except OSError:
            with contextlib.suppress(OSError):
                folder.rmdir()
            continue
        try:
            yield str(folder / "cgroup.procs")
        finally:
            folder.rmdir()
        return
    pytest.skip("no right to make a group of processes")


def train(folder, group, **environment):
    """Run the program in the group."""
    shell = ["sh", "-c", f'echo $$ > {group} && exec "$0" "$@"']
    command = [*shell, sys.executable, "-c", _PROGRAM, str(folder)]
    paths = os.pathsep.join(filter(None, sys.path))
    own = {k: v for k, v in os.environ.items() if not k.startswith("TF_CPU_")} | {"PYTHONPATH": paths}
    own |= {"CUDA_VISIBLE_DEVICES": "-1"} | environment
    return subprocess.run(command, env=own, capture_output=True, text=True, check=False, timeout=500)


def test_a_batch_beyond_a_container_s_memory_is_computed_in_parts(tmp_path):
    with memory_group() as group:
        done = train(tmp_path / "limited", group)
        assert done.returncode == 0, done.stderr[-2000:]
        words = done.stdout.split()
        assert words[-1] == "3" and int(words[-3]) > 1 and "OOM when allocating" in done.stderr
        # Without the limit for tensors the kernel ends the process.
        killed = train(tmp_path / "killed", group, TF_CPU_BFC_MEM_LIMIT_IN_MB="100000")
        assert killed.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), killed.stderr[-2000:]
