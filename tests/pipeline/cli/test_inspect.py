import numpy as np

from detection_core.artifacts.tflite_decoding import BoxDecoding
from detection_core.artifacts.tflite_metadata import TFLiteDescription
from detection_core.artifacts.tflite_provenance import Provenance, with_provenance
from detection_core.exporters.tflite_description import add_description
from tests.support.bare_tflite import heads
from tests.support.edge_files import convolutions

ORIGIN = Provenance(model="tiny", format="int8", config_hash="abc", metrics={"mAP": 0.5})

ANCHORS = np.zeros([7, 4], np.float32)
DECODING = BoxDecoding(anchors=ANCHORS, scales=(10, 10, 5, 5), num_classes=3, sigmoid=True)


def described(**more):
    return TFLiteDescription(name="m", mean=(1.0,), std=(2.0,), labels=("a", "b"), **more)


def test_tensors_labels_origin_and_metrics_are_told_to_people_and_scripts(tmp_path, cli):
    path = tmp_path / "m.tflite"
    path.write_bytes(with_provenance(add_description(convolutions(), described()), ORIGIN))
    lines = {line.split("  ")[0]: line for line in cli("inspect", path).splitlines()}
    assert "mean 1, std 2" in lines["normalisation"] and lines["labels"].endswith("2: a, b")
    assert lines["config hash"].endswith("abc") and lines["data fingerprint"].endswith("unknown")
    assert "image" in lines["input 0"] and "float32" in lines["input 0"]
    assert lines["mAP"].endswith("0.5000")
    assert lines["score threshold"].endswith("none: every detection is shown")
    data = cli.json("inspect", path)
    assert data["operators"] == {"CONV_2D": 2} and data["provenance"]["metrics"] == {"mAP": 0.5}
    path.write_bytes(add_description(heads(), described(score_threshold=0.25), DECODING))
    assert "score threshold 0.2500 (highest F1)" in " ".join(cli("inspect", path).split())


def test_a_file_without_origin_says_so_and_what_an_accelerator_takes_over_is_told_and_decides(tmp_path, cli):
    whole, cut = tmp_path / "whole.tflite", tmp_path / "cut.tflite"
    whole.write_bytes(convolutions())
    assert "does not say where it comes from" in cli("inspect", whole)
    assert "gone" in cli.refused("inspect", tmp_path / "gone")
    cut.write_bytes(convolutions(between="reverse"))
    told = cli("inspect", whole, "--for", "xnnpack")
    assert "2 of 2 operations before post-processing, in 1 part(s): 2" in told
    found = cli.json("inspect", cut, "--for", "xnnpack,edgetpu", code=1)["accelerators"]
    assert [(one["family"], one["parts"]) for one in found] == [("xnnpack", [1, 1]), ("edgetpu", [])]
    assert "expected some of edgetpu" in cli.refused("inspect", cut, "--for", "abacus")
