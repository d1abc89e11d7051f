"""The verb that measures files."""

from __future__ import annotations

import json

from detection_core.artifacts.benchmark import BENCHMARK
from pipeline.cli.parser import main
from tests.detection_core.exporters.edge_files import convolutions


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
