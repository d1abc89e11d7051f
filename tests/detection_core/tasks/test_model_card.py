"""The model card of a version."""

import json

import pytest

from detection_core.artifacts.evaluation import EvalReport
from detection_core.artifacts.tflite_provenance import Provenance, with_provenance
from detection_core.exporters.tflite_description import add_description
from detection_core.tasks.model_card import model_card
from tests.support.bare_tflite import DECODING, DESCRIPTION, bare_file, heads

INFO = {
    "kind": "float",
    "name": "ssd_tiny",
    "parameters": 1234,
    "num_classes": 2,
    "input_size": [32, 48],
    "extra": {"started_from": "random weights", "steps": 60, "config_hash": "cc", "data_fingerprint": "dd"},
}
MEASURED = EvalReport(metrics={"mAP": 0.51234, "mAP (large)": -1.0}, score_threshold=0.321)


@pytest.fixture
def model(tmp_path):
    extra = tmp_path / "model" / "assets.extra" / "detflow"
    extra.mkdir(parents=True)
    (tmp_path / "model" / "saved_model.pb").write_bytes(b"graph")
    (extra / "model.json").write_text(json.dumps(INFO))
    (extra / "label_map.pbtxt").write_text("item { id: 1 name: 'a|b' }\nitem { id: 2 name: '<script>' }\n")
    return tmp_path / "model"


def test_the_card_tells_network_training_classes_and_metrics(model, tmp_path):
    card = model_card(str(model), MEASURED)
    for line in (
        "# ssd\\_tiny",
        "| input | 32 x 48 pixels, RGB |",
        "| started from | random weights |",
        "| config hash | cc |",
        "| data fingerprint | dd |",
        "| training | not recorded |",
        "| classes | 2: a\\|b, \\<script\\> |",
        "| mAP | 0.5123 |",
        "Best score threshold (highest F1): 0.3210.",
        "| mAP (large) | \N{EN DASH} |",
    ):
        assert line in card.splitlines()
    assert "TensorFlow Lite" not in card
    assert card == model_card(str(model), MEASURED)
    # Of a model that says nothing of itself.
    (tmp_path / "saved_model.pb").write_bytes(b"graph")
    card = model_card(str(tmp_path), EvalReport(metrics={}))
    assert "| classes | not recorded |" in card and card.startswith("# Detector")


def test_files_stand_side_by_side_with_their_own_metrics(model, tmp_path):
    folder = tmp_path / "tflite"
    folder.mkdir()
    origin = Provenance(written_by="detflow 1", quantization="aware", metrics={"mAP": 0.4})
    (folder / "a.tflite").write_bytes(with_provenance(bare_file(), origin))
    (folder / "b.tflite").write_bytes(b"of another program")
    (folder / "c.tflite").write_bytes(add_description(heads(), DESCRIPTION, DECODING))
    lines = model_card(str(model), MEASURED, tflite_dir=str(folder)).splitlines()
    assert any(line.startswith("| a.tflite |") and line.endswith("| aware | detflow 1 |") for line in lines)
    assert any(line.startswith("| c.tflite |") and " | 0.2500 | " in line for line in lines)
    assert "| metric | a.tflite | b.tflite | c.tflite |" in lines
    assert "| mAP | 0.4000 | \N{EN DASH} | \N{EN DASH} |" in lines
