"""Memory of tensors that is kept."""

import os
import subprocess
import sys

from detection_core.training import host_allocator
from tests.support.cases import cases

# TensorFlow's default allocator does not count what tensors take; the one that keeps memory does.
_COUNTED = """
from detection_core.training.host_allocator import keep_host_memory
keep_host_memory()
import tensorflow as tf
for _ in range(2):
    tf.ones([4_000_000]) + 1.0
try:
    print(tf.config.experimental.get_memory_info("CPU:0")["peak"])
except ValueError:
    print(0)
"""


def test_tensorflow_keeps_memory_unless_the_environment_says_otherwise(monkeypatch):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TF_CPU_")}
    # oneDNN, which TensorFlow turns on by the processor, has an allocator of its own that counts.
    environment |= {"TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": "-1"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, "-c", _COUNTED]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert int(done.stdout.split()[-1]) >= 16_000_000
    monkeypatch.setattr(host_allocator, "_GPU_DEVICES", ())
    monkeypatch.delenv("TF_CPU_BFC_MEM_LIMIT_IN_MB", raising=False)
    monkeypatch.setenv("TF_CPU_ALLOCATOR_USE_BFC", "false")
    host_allocator.keep_host_memory()
    assert os.environ["TF_CPU_ALLOCATOR_USE_BFC"] == "false"


def test_a_machine_with_a_gpu_is_left_as_it_is(monkeypatch):
    monkeypatch.setattr(host_allocator, "_GPU_DEVICES", (__file__,))
    monkeypatch.delenv("TF_CPU_ALLOCATOR_USE_BFC", raising=False)
    host_allocator.keep_host_memory()
    assert "TF_CPU_ALLOCATOR_USE_BFC" not in os.environ


MACHINE_MIB = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20


@cases((8 << 30, 7 << 10), (1 << 30, 1 << 9), (0, MACHINE_MIB - 1024))
def test_tensors_may_take_what_is_left_beside_the_code(monkeypatch, *, available, limit):
    monkeypatch.setattr(host_allocator, "_GPU_DEVICES", ())
    monkeypatch.setattr(host_allocator, "available_memory", lambda: available)
    monkeypatch.setenv("TF_CPU_ALLOCATOR_USE_BFC", "true")
    monkeypatch.delenv("TF_CPU_BFC_MEM_LIMIT_IN_MB", raising=False)
    host_allocator.keep_host_memory()
    assert int(os.environ["TF_CPU_BFC_MEM_LIMIT_IN_MB"]) == limit
    monkeypatch.delenv("TF_CPU_BFC_MEM_LIMIT_IN_MB")
