import json
import subprocess
import sys

import pytest

from detection_core.artifacts import detector as layout
from detection_core.errors import ContractError
from detection_core.storage import files
from tests.support.cases import refused

SAID = {"kind": "float", "name": "ssd", "parameters": 3, "num_classes": 2, "input_size": (64, 32)}
INFO = layout.DetectorInfo(**SAID, extra={"steps": 5})


@pytest.fixture
def detector(tmp_path):
    serving = tmp_path / "model" / layout.SERVING
    files.write_text(str(serving / layout.SAVED_MODEL), "graph")
    files.write_text(str(serving / layout.EXTRA / layout.MODEL_INFO), layout.format_info(INFO))
    return tmp_path / "model"


def test_a_description_is_found_read_and_refused_where_this_version_cannot_read_it(tmp_path, detector):
    refused(ContractError, "expected a detector folder", layout.serving_dir, str(tmp_path))
    files.write_text(str(tmp_path / layout.SAVED_MODEL), "graph")
    found = r"assets.extra/detflow/model.json.*not written by"
    refused(ContractError, found, layout.read_info, str(tmp_path))
    for path in (str(detector), str(detector / layout.SERVING)):
        assert layout.serving_dir(path) == str(detector / layout.SERVING)
        assert layout.read_info(path) == INFO
    path = detector / layout.SERVING / layout.EXTRA / layout.MODEL_INFO
    record = json.loads(layout.format_info(INFO))
    path.write_text(json.dumps({**record, "colour": "blue"}))
    assert layout.read_info(str(detector)) == INFO
    path.write_text(json.dumps({"format_version": layout.MODEL.version + 1, "shape": [1, 2]}))
    refused(ContractError, "a newer detflow", layout.read_info, str(detector))
    known = json.loads(layout.format_info(INFO))
    for text, message in (
        ("not json", "expected the JSON that a training writes"),
        ("[]", "expected an object"),
        ("\xff", "expected text, found bytes"),
        ('{"kind": "float"}', "expected name, found none"),
        (json.dumps({**known, "format_version": 9}), "found 9"),
        (json.dumps({**known, "kind": "pickled"}), "'pickled'"),
    ):
        (detector / layout.SERVING / layout.EXTRA / layout.MODEL_INFO).write_bytes(text.encode("latin-1"))
        refused(ContractError, message, layout.read_info, str(detector))


def test_reading_needs_no_tensorflow():
    code = "import sys, detection_core.artifacts.detector; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
