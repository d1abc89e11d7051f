import dataclasses

import pytest

from component_specs import TFLiteExporterJob
from components.tflite_exporter.run import run
from detection_core.artifacts.blessing import blessing_reasons, is_blessed
from detection_core.builders.detector import build_detector
from detection_core.config.load import parse_pipeline_config
from detection_core.data.label_map import label_map_from_names
from detection_core.errors import ConfigError, ContractError
from detection_core.exporters.detector_folder import write_detector
from detection_core.tasks.export import TFLiteExportOptions
from tests.support.tiny_training import config_text, write_examples


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory):
    root = tmp_path_factory.mktemp("exporter")
    write_examples(root / "examples", images=2)
    config = parse_pipeline_config(config_text())
    labels = label_map_from_names(["dark", "bright"])
    write_detector(build_detector(config.model), config, labels, str(root / "model"))
    return root


def job(artifacts, name: str, **changes) -> TFLiteExporterJob:
    outputs = {out: str(artifacts / name / out) for out in ("tflite", "parity", "blessing")}
    fields = {"examples": str(artifacts / "examples"), "model": str(artifacts / "model"), "split": "train"}
    return TFLiteExporterJob(**{**fields, **outputs, **changes})


@pytest.fixture(scope="module")
def done(artifacts):
    return {
        drop: run(job(artifacts, f"d{drop}", formats=("float32",), max_map_drop=drop)) for drop in (2.0, -2.0)
    }


def test_the_contract_has_the_defaults_of_the_library_and_alone_a_bound():
    contract = {field.name: field.default for field in dataclasses.fields(TFLiteExporterJob)}
    library = {field.name: field.default for field in dataclasses.fields(TFLiteExportOptions)}
    shared = set(contract) & set(library)
    assert {name for name in shared if contract[name] != library[name]} == {"max_map_drop"}
    assert library["max_map_drop"] is dataclasses.MISSING


def test_a_file_within_the_bound_is_blessed(artifacts, done):
    folder = str(artifacts / "d2.0" / "blessing")
    assert done[2.0]["blessed"] and is_blessed(folder)
    assert "model_float32.tflite" in blessing_reasons(folder)[0]
    size = (artifacts / "d2.0" / "tflite" / "model_float32.tflite").stat().st_size
    assert done[2.0]["float32_bytes"] == size


def test_a_file_beyond_it_is_not_and_the_step_still_ends_well(artifacts, done):
    folder = str(artifacts / "d-2.0" / "blessing")
    assert not done[-2.0]["blessed"] and not is_blessed(folder)
    assert "more than" in blessing_reasons(folder)[0]
    assert (artifacts / "d-2.0" / "parity" / "parity.json").exists()


def test_a_file_beyond_a_limit_is_not_blessed(artifacts):
    limits = {"float32": {"size_mb": 0.001, "latency_ms": 1e6, "memory_mb": 1e6}}
    done = run(job(artifacts, "limits", formats=("float32",), max_map_drop=2.0, limits=limits))
    folder = str(artifacts / "limits" / "blessing")
    assert not done["blessed"] and not is_blessed(folder)
    (reason,) = blessing_reasons(folder)
    assert "size_mb" in reason and "more than 0.001" in reason


def test_what_cannot_be_exported_is_refused(artifacts):
    with pytest.raises(ConfigError, match="formats"):
        run(job(artifacts, "bad", formats=("float32", "int7")))
    with pytest.raises(ContractError):
        run(job(artifacts, "bad", model=str(artifacts / "examples")))
    assert not (artifacts / "bad").exists()
