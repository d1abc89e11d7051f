"""What cannot be held against a detector; `test_export` compares real files."""

import re

import pytest

from detection_core.artifacts.detector import DetectorInfo
from detection_core.artifacts.tflite_provenance import Provenance, with_provenance
from detection_core.errors import ConfigError, ModelError
from detection_core.tasks import compare_file as module
from detection_core.tasks.compare_file import CompareOptions, compare_file
from tests.support.tiny_files import file_of

INFO = DetectorInfo(
    kind="float", name="ssd", parameters=1, num_classes=2, input_size=(32, 32), extra={"trained_as": "b"}
)


CASES = (
    (None, ModelError, "(detflow.json at its end), found none; pass a file that export wrote"),
    (
        Provenance(format="int8", made_from="quantization_aware"),
        ConfigError,
        "quantized_model: expected the quantization-aware detector",
    ),
    (
        Provenance(format="int2", written_by="detflow 9"),
        ModelError,
        "found 'int2'; it is of another version (detflow 9)",
    ),
    (
        Provenance(format="float32", made_from="float", trained_as="a"),
        ModelError,
        "expected a file of the detector in m (training b), found one of training a",
    ),
)


def test_a_file_of_something_else_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module.layout, "read_info", {"m": INFO}.__getitem__)
    path, content = tmp_path / "file.tflite", file_of("float32")
    for origin, kind, text in CASES:
        path.write_bytes(content if origin is None else with_provenance(content, origin))
        with pytest.raises(kind, match=re.escape(text)):
            compare_file(str(path), "m", "e")


def test_no_file_and_no_image_are_refused(tmp_path):
    for path in (tmp_path, tmp_path / "none.tflite"):
        with pytest.raises(ModelError, match=r"expected a .tflite file, found none; check the path"):
            compare_file(str(path), "m", "e")
    with pytest.raises(ConfigError, match="images: expected at least one image, found 0"):
        CompareOptions(images=0)
