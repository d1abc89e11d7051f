"""oneDNN is for processes that train, and fuses nothing where it is slow."""

import os
from types import SimpleNamespace

import pytest
import tensorflow as tf

from detection_core.training.kernels import avoid_slow_fusions, use_onednn
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
