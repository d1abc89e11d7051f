"""oneDNN is for processes that train and fuses nothing where it is slow; sums of 16 bits are exact."""

import os
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework.ops import gradient_registry

from detection_core.training.kernels import avoid_slow_fusions, sum_bias_gradients_in_float32, use_onednn
from tests.support.command_line import run_python

SWITCH = "TF_ENABLE_ONEDNN_OPTS"


def test_x86_gets_onednn_unless_the_environment_says_otherwise(monkeypatch):
    for machine, before, after in (("x86_64", None, "1"), ("x86_64", "0", "0"), ("aarch64", None, None)):
        monkeypatch.setenv(SWITCH, "")
        monkeypatch.delenv(SWITCH)
        if before is not None:
            monkeypatch.setenv(SWITCH, before)
        monkeypatch.setattr(os, "uname", lambda machine=machine: SimpleNamespace(machine=machine))
        use_onednn()
        assert os.environ.get(SWITCH) == after, machine


@pytest.fixture
def remapping():
    yield lambda: tf.config.optimizer.get_experimental_options().get("remapping", True)
    tf.config.optimizer.set_experimental_options({"remapping": True})


def test_nothing_is_fused_on_a_processor_without_avx_512(monkeypatch, tmp_path, remapping):
    cpuinfo = tmp_path / "cpuinfo"
    for switch, flags, fused in (
        ("0", "avx avx2", True), ("1", "avx avx2 avx512f", True), ("1", "avx avx2", False),
    ):  # fmt: skip
        cpuinfo.write_text(f"processor\t: 0\nflags\t\t: {flags}\n")
        monkeypatch.setenv(SWITCH, switch)
        tf.config.optimizer.set_experimental_options({"remapping": True})
        avoid_slow_fusions(str(cpuinfo))
        assert remapping() is fused, (switch, flags)
    avoid_slow_fusions(str(tmp_path / "missing"))
    assert remapping() is False


def test_the_steps_that_train_choose_before_tensorflow_is_imported():
    names = "detection_core.training.kernels", "components.runtime.container", "pipeline.local.local_run"
    imports = "\n".join(f"import {name}" for name in names)
    run_python(f"{imports}\nimport sys\nassert 'tensorflow' not in sys.modules")


def test_a_bias_gets_the_sum_of_16_bit_gradients(monkeypatch):
    """TensorFlow's own sum of 800 ones in bfloat16 is 256."""
    entry = gradient_registry._registry["BiasAdd"]
    monkeypatch.setitem(entry, "type", entry["type"])
    sum_bias_gradients_in_float32.__wrapped__()
    for dtype in (tf.float32, tf.bfloat16, tf.float16):
        bias = tf.Variable(tf.zeros(3, dtype))
        with tf.GradientTape() as tape:
            maps = tf.nn.bias_add(tf.ones([8, 10, 10, 3], dtype), bias)
        gradient = tape.gradient(maps, bias)
        assert gradient.dtype == dtype
        np.testing.assert_array_equal(tf.cast(gradient, tf.float32), [800.0] * 3)
