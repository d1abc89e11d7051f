import dataclasses
from unittest import mock

import pytest

from component_specs import TFLiteExporterJob
from components.tflite_exporter import run as component
from components.tflite_exporter.run import run
from detection_core.artifacts.blessing import read_verdict
from detection_core.artifacts.parity import ParityReport
from detection_core.errors import ConfigError, ContractError
from detection_core.ops.tile_options import TileOptions
from detection_core.tasks.exporting.parity import TFLiteExportOptions
from tests.support.cases import refused
from tests.support.detectors import untrained
from tests.support.tiny_training import write_examples


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    return str(write_examples(tmp_path_factory.mktemp("exporter") / "examples", images=2))


def job(examples, tmp_path, **changes):
    outputs = {out: str(tmp_path / out) for out in ("tflite", "parity", "blessing")}
    fields = {"examples": examples, "model": untrained(), "split": "train", "formats": ("float32",)}
    return TFLiteExporterJob(**{**fields, **outputs, **changes})


def test_the_contract_has_the_defaults_of_the_library_and_alone_a_bound():
    contract = {field.name: field.default for field in dataclasses.fields(TFLiteExporterJob)}
    library = {field.name: field.default for field in dataclasses.fields(TFLiteExportOptions)}
    shared = set(contract) & set(library)
    assert {name for name in shared if contract[name] != library[name]} == {"max_map_drop", "tiles"}
    # Both are no tiles: a map as steps carry it, and options.
    artifacts = dict.fromkeys(("examples", "model", "tflite", "parity", "blessing"), "")
    assert (TFLiteExporterJob(**artifacts).tiles, library["tiles"]) == ({}, None)
    assert library["max_map_drop"] is dataclasses.MISSING


def test_a_file_within_the_bound_is_blessed(examples, tmp_path):
    done, folder = run(job(examples, tmp_path, max_map_drop=2.0)), str(tmp_path / "blessing")
    assert done["blessed"] and read_verdict(folder).blessed
    assert "model_float32.tflite" in read_verdict(folder).reasons[0]
    assert done["float32_bytes"] == (tmp_path / "tflite" / "model_float32.tflite").stat().st_size


def test_what_the_job_says_reaches_the_export_and_its_verdict_the_blessing(examples, tmp_path, monkeypatch):
    report = ParityReport(split="train", images=2, files=[], blessed=False, reasons=["too large"])
    export = mock.Mock(return_value=report)
    monkeypatch.setattr(component, "export_tflite", export)
    given = {"max_map_drop": 0.5, "limits": {"int8": {"size_mb": 1}}, "max_detections": 7, "form": "headless"}
    given |= {"use_regular_nms": True, "representative_examples": 3, "formats": ("int8",)}
    tiles = {"size": 640, "overlap": 0.1}
    asked = job(examples, tmp_path, quantized_model="q", tiles=tiles, **given)
    assert run(asked) == {"blessed": False}
    options = TFLiteExportOptions(split="train", tiles=TileOptions(**tiles), **given)
    folders = {"tflite_dir": asked.tflite, "parity_dir": asked.parity, "quantized_model_dir": "q"}
    export.assert_called_once_with(asked.model, examples, options, **folders)
    verdict = read_verdict(asked.blessing)
    assert not verdict.blessed and verdict.reasons == ["too large"]


def test_what_cannot_be_exported_is_refused(examples, tmp_path):
    refused(ConfigError, "formats", run, job(examples, tmp_path, formats=("float32", "int7")))
    refused(ContractError, "", run, job(examples, tmp_path, model=examples))
    assert not list(tmp_path.iterdir())
