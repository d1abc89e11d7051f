"""The verb that shows what a model file is."""

from __future__ import annotations

import json

from detection_core.exporters.tflite_description import add_description
from pipeline.cli.parser import main
from tests.detection_core.artifacts.test_tflite_decoding import DECODING, DESCRIPTION, heads
from tests.detection_core.artifacts.test_tflite_metadata import bare_file
from tests.detection_core.tasks.test_inspection import _file
from tests.support.edge_files import convolutions


def test_text_names_tensors_labels_origin_and_metrics(tmp_path, capsys):
    assert main(["inspect", str(_file(tmp_path / "m.tflite"))]) == 0
    lines = {line.split("  ")[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "mean 1, std 2" in lines["normalisation"] and lines["labels"].endswith("2: a, b")
    assert lines["config hash"].endswith("abc") and lines["data fingerprint"].endswith("unknown")
    assert "image" in lines["input 0"] and "float32" in lines["input 0"]
    assert lines["mAP"].endswith("0.5000")
    assert lines["score threshold"].endswith("none: every detection is shown")
    (tmp_path / "m.tflite").write_bytes(add_description(heads(), DESCRIPTION, DECODING))
    assert main(["inspect", str(tmp_path / "m.tflite")]) == 0
    assert "score threshold 0.2500 (highest F1)" in " ".join(capsys.readouterr().out.split())


def test_json_has_all_of_it(tmp_path, capsys):
    assert main(["inspect", str(_file(tmp_path / "m.tflite")), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["operators"] == {"ADD": 1} and data["provenance"]["metrics"] == {"mAP": 0.5}


def test_a_file_without_origin_says_so_and_nothing_is_an_error(tmp_path, capsys):
    (tmp_path / "m.tflite").write_bytes(bare_file())
    assert main(["inspect", str(tmp_path / "m.tflite")]) == 0
    assert "does not say where it comes from" in capsys.readouterr().out
    assert main(["inspect", str(tmp_path / "gone")]) == 2


def test_what_an_accelerator_takes_over_is_told_and_decides(tmp_path, capsys):
    whole, cut = tmp_path / "whole.tflite", tmp_path / "cut.tflite"
    whole.write_bytes(convolutions())
    cut.write_bytes(convolutions(between="reverse"))
    assert main(["inspect", str(whole), "--for", "xnnpack"]) == 0
    assert "2 of 2 operations before post-processing, in 1 part(s): 2" in capsys.readouterr().out
    assert main(["inspect", str(cut), "--for", "xnnpack,edgetpu", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["accelerators"]
    assert [(one["family"], one["parts"]) for one in found] == [("xnnpack", [1, 1]), ("edgetpu", [])]
    assert main(["inspect", str(cut), "--for", "abacus"]) == 2
    assert "expected some of edgetpu" in capsys.readouterr().err
