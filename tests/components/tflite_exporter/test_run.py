import dataclasses

import pytest

from component_specs import TFLiteExporterJob
from components.tflite_exporter.run import run
from detection_core.artifacts.blessing import blessing_reasons, is_blessed
from detection_core.errors import ConfigError, ContractError
from detection_core.tasks.export import TFLiteExportOptions
from tests.support.component_chain import untrained
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
    assert {name for name in shared if contract[name] != library[name]} == {"max_map_drop"}
    assert library["max_map_drop"] is dataclasses.MISSING


def test_a_file_within_the_bound_is_blessed(examples, tmp_path):
    done, folder = run(job(examples, tmp_path, max_map_drop=2.0)), str(tmp_path / "blessing")
    assert done["blessed"] and is_blessed(folder)
    assert "model_float32.tflite" in blessing_reasons(folder)[0]
    assert done["float32_bytes"] == (tmp_path / "tflite" / "model_float32.tflite").stat().st_size


def test_a_file_beyond_bound_and_limit_is_not_and_the_step_still_ends_well(examples, tmp_path):
    limits = {"float32": {"size_mb": 0.001, "latency_ms": 1e6, "memory_mb": 1e6}}
    done, folder = run(job(examples, tmp_path, max_map_drop=-2.0, limits=limits)), str(tmp_path / "blessing")
    assert not done["blessed"] and not is_blessed(folder)
    drop, size = blessing_reasons(folder)
    assert "more than" in drop and "size_mb" in size and "more than 0.001" in size
    assert (tmp_path / "parity" / "parity.json").exists()


def test_what_cannot_be_exported_is_refused(examples, tmp_path):
    with pytest.raises(ConfigError, match="formats"):
        run(job(examples, tmp_path, formats=("float32", "int7")))
    with pytest.raises(ContractError):
        run(job(examples, tmp_path, model=examples))
    assert not list(tmp_path.iterdir())
