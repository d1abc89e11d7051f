"""ONNX files where ONNX Runtime is missing; tests/runtimes runs some in it."""

import sys

from detection_core.errors import ConfigError
from detection_core.evaluation.measure import known_classes
from detection_core.evaluation.runner import load_runner
from tests.support.cases import refused


def test_a_missing_package_is_named_with_its_remedy(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    path = tmp_path / "model.onnx"
    path.write_bytes(b"onnx")
    refused(
        ConfigError,
        r"model.onnx: expected the package onnxruntime .*`pip install 'detflow\[onnx\]'`",
        load_runner,
        str(path),
    )
    assert known_classes(str(path)) == {}
