"""The verb that measures files."""

from __future__ import annotations

import json

import pytest

from detection_core.artifacts.benchmark import BENCHMARK
from pipeline.cli.parser import main
from tests.support.blobs import BlobDetector, save
from tests.support.edge_files import convolutions


def test_table_json_and_page_of_two_versions(tmp_path, capsys):
    for version in ("1", "2"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "m.tflite").write_bytes(convolutions())
    files = [str(tmp_path / version) for version in ("1", "2")]
    options = ["--runs", "3", "--threads", "1", "--delegates", "xnnpack"]
    assert main(["bench", *files, *options, "--output", str(tmp_path / "out")]) == 0
    text = capsys.readouterr().out
    assert "1/m.tflite" in text and "2/m.tflite" in text and "CONV_2D" in text and "images/s" in text
    assert len(BENCHMARK.read(str(tmp_path / "out")).files) == 2
    assert "<h1>Benchmark</h1>" in (tmp_path / "out" / "index.html").read_text()
    assert main(["bench", *files, *options, "--no-operators", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [file["operators"] for file in data["files"]] == [[], []]


def test_wrong_arguments_are_one_message(tmp_path, capsys):
    (tmp_path / "m.tflite").write_bytes(b"no model")
    for arguments in (["gone"], [str(tmp_path / "m.tflite")], [str(tmp_path), "--threads", "x"]):
        assert main(["bench", *arguments]) == 2
        assert "expected" in capsys.readouterr().err


def test_saved_models_are_measured_by_size_of_the_batch(tmp_path, capsys):
    path = save(BlobDetector(), tmp_path / "model")
    words = ["bench", path, "--batch-sizes", "1,2", "--runs", "3", "--image-size", "40x30"]
    assert main([*words, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)  # a batch of two is not what this model takes
    assert found["batch_size"] == 1 and found["images_per_second"] > 0
    assert main(words) == 0
    assert "images/s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--image-size", "40"], "expected WIDTHxHEIGHT"),
        (["--image-size", "4²x30"], "expected WIDTHxHEIGHT"),
        (["--batch-sizes", "one"], "--batch-sizes: expected numbers"),
        (["--batch-sizes", "0"], "expected batches, runs and image sides from 1"),
        (["other.tflite"], "other.tflite: expected SavedModels alone"),
    ],
)
def test_what_cannot_be_measured_of_saved_models_is_refused(words, message, tmp_path, capsys):
    assert main(["bench", save(BlobDetector(), tmp_path / "model"), *words]) == 2
    assert message in capsys.readouterr().err
