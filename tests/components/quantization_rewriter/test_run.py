import dataclasses
import json
import types
from unittest import mock

import pytest

from component_specs import QuantizationRewriterJob
from components.quantization_rewriter import run as component
from components.quantization_rewriter.run import run
from detection_core.artifacts.detector import read_info
from detection_core.errors import ConfigError
from detection_core.storage import files
from detection_core.tasks.fitting.work_folder import ResumeOptions
from tests.support.detectors import family_config, untrained
from tests.support.tiny_training import write_examples

OUTPUTS = ("quantized_model", "quantized_run", "quantization")


@pytest.fixture
def job(tmp_path):
    """A job of one step without a graph_rewriter block."""
    write_examples(tmp_path / "examples", images=2)
    files.write_text(str(tmp_path / "config" / "pipeline.config"), family_config("plain", 1))
    places = {name: str(tmp_path / name) for name in (*OUTPUTS, "examples")}
    places |= {"pipeline_config": str(tmp_path / "config"), "work_dir": str(tmp_path / "work")}
    return QuantizationRewriterJob(model=untrained(), **places)


def test_without_a_graph_rewriter_block_the_error_says_what_to_add(job, tmp_path):
    with pytest.raises(ConfigError, match=r"graph_rewriter.*add"):
        run(job)
    assert not any((tmp_path / name).exists() for name in OUTPUTS)


def test_what_the_job_says_reaches_the_task(job, monkeypatch):
    measured = {"steps": 1, "loss": 0.5, "seconds": 2.0, "coverage": 0.75}
    quantize = mock.Mock(return_value=types.SimpleNamespace(**measured, not_quantized=["a", "b"]))
    monkeypatch.setattr(component, "quantize", quantize)
    job = dataclasses.replace(
        job, code_version="c", checkpoint_minutes=4.0, overrides={"batch_size": 3}, representative_examples=5
    )
    assert run(job) == {**measured, "not_quantized": 2}
    [((config,), given)] = quantize.call_args_list
    assert config.train_config.batch_size == 3
    assert config.train_input_reader.label_map_path == f"{job.examples}/label_map.pbtxt"
    folders = {f"{name}_dir": getattr(job, name) for name in ("model", *OUTPUTS)}
    resume = ResumeOptions(code_version="c", checkpoint_minutes=4.0)
    calibration = given.pop("calibration")
    assert given == {**folders, "work_dir": job.work_dir, "resume": resume}
    assert (calibration.examples, calibration.gather) == (5, None)
    run(dataclasses.replace(job, distributed=True))
    assert quantize.call_args.kwargs["calibration"].gather is not None


@pytest.mark.slow
def test_every_output_is_filled(job, tmp_path):
    properties = run(dataclasses.replace(job, overrides={"graph_rewriter": "{ quantization { delay: 0 } }"}))
    assert properties["steps"] == 1 and properties["coverage"] == 1.0 and properties["not_quantized"] == 0
    assert read_info(str(tmp_path / "quantized_model")).kind == "quantized"
    assert (tmp_path / "quantized_run" / "pipeline.config").exists()
    record = json.loads((tmp_path / "quantization" / "quantization.json").read_text())
    assert record["settings"]["delay"] == 0 and record["quantized"]
