"""Inspection of files and folders."""

import json

import pytest

from detection_core.artifacts.model_run import TRAIN_REPORT
from detection_core.artifacts.published import PublishedVersion, version_file, write_version
from detection_core.artifacts.tflite_metadata import TFLiteDescription
from detection_core.artifacts.tflite_provenance import Provenance, with_provenance
from detection_core.errors import ContractError, ModelError
from detection_core.exporters.tflite_description import add_description
from detection_core.tasks.inspection import inspect
from tests.support.bare_tflite import bare_file
from tests.support.detectors import trained

ORIGIN = Provenance(model="tiny", format="int8", config_hash="abc", metrics={"mAP": 0.5})


def _file(path):
    description = TFLiteDescription(name="m", mean=(1.0,), std=(2.0,), labels=("a", "b"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(with_provenance(add_description(bare_file(), description), ORIGIN))
    return path


def test_a_file_says_what_it_is(tmp_path):
    path = _file(tmp_path / "m.tflite")
    found = inspect(str(path))
    assert (found.kind, found.size_bytes) == ("tflite", path.stat().st_size)
    assert [(t.dtype, t.shape, t.described_as) for t in found.inputs] == [("float32", (1,), "image")]
    assert found.operators == {"ADD": 1}
    assert found.description.labels == ("a", "b") and found.description.mean == (1.0,)
    assert found.provenance == ORIGIN and found.published is None
    assert json.loads(json.dumps(found.data()))["provenance"]["config_hash"] == "abc"
    # One of another program is shown as far as it goes.
    (tmp_path / "m.tflite").write_bytes(bare_file())
    found = inspect(str(tmp_path / "m.tflite"))
    assert found.description is None and found.provenance is None and found.operators == {"ADD": 1}


def test_a_published_file_brings_the_record_of_its_version(tmp_path):
    path = _file(tmp_path / "tflite" / "17" / "m.tflite")
    version = PublishedVersion(number=17, run_key="key", metrics={"mAP": 0.7})
    (tmp_path / "versions").mkdir()
    write_version(str(tmp_path / "versions" / version_file(17)), version)
    published = inspect(str(path)).published
    assert (published["number"], published["metrics"]) == (17, {"mAP": 0.7})
    other = _file(tmp_path / "elsewhere" / "17" / "m.tflite")
    assert inspect(str(other)).published is None


def test_a_detector_folder_says_what_it_was_trained_with():
    found = inspect(str(trained("ssd") / "model"))
    assert found.kind == "saved_model" and found.detector.num_classes == 2
    report = TRAIN_REPORT.read(str(trained("ssd") / "run"))
    origin, extra = found.provenance, found.detector.extra
    assert (origin.trained_as, origin.config_hash) == (report.fingerprint, extra["config_hash"])
    assert origin.data_fingerprint == extra["data_fingerprint"] and len(origin.data_fingerprint) == 16
    assert [(t.signature, t.dtype) for t in found.inputs] == [("input_tensor", "uint8")]
    outputs = [t.signature for t in found.outputs]
    assert outputs == sorted(outputs) and "detection_boxes" in outputs
    assert found.operators["Conv2D"] > 40


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(ContractError, match="found nothing"):
        inspect(str(tmp_path / "gone.tflite"))
    with pytest.raises(ContractError, match="detector folder"):
        inspect(str(tmp_path))
    (tmp_path / "x.tflite").write_bytes(b"no model at all")
    with pytest.raises(ModelError, match=r"x\.tflite: expected a TensorFlow Lite file"):
        inspect(str(tmp_path / "x.tflite"))
    (tmp_path / "saved_model.pb").write_bytes(b"\xff\xff")
    with pytest.raises(ModelError, match="expected a SavedModel"):
        inspect(str(tmp_path))
