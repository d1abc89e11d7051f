"""Model Maker's names, configs and arguments."""

import enum
import importlib
import logging
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from setuptools import find_namespace_packages

import detflow
from detection_core import ConfigError
from detection_core.progress import ProgressUpdate, log_reporter
from detflow import model_spec, object_detector, quantization
from detflow.argument_checks import check_count, check_counts, is_number
from detflow.config import ExportFormat, QuantizationConfig
from detflow.shown_progress import shown_progress
from tests.support.command_line import run_python
from tests.support.refusals import not_refused

ROOT = Path(__file__).parents[4]


def modules_after(code):
    code = f"import sys; before = set(sys.modules)\n{code}\nprint(*sorted(set(sys.modules) - before))"
    return set(run_python(code).stdout.split())


def test_imports_cost_nothing_those_of_the_tutorial_need_no_tensorflow_and_any_module_may_be_first():
    added = modules_after("import detflow")
    assert not {"detection_core", "tensorflow", "numpy", "google", "yaml", "dataclasses"} & added
    assert {name for name in added if name.startswith("detflow")} == {"detflow"}
    added = modules_after(
        "from detflow import model_spec, object_detector\n"
        "from detflow.config import ExportFormat, QuantizationConfig\n"
        "spec = model_spec.get('efficientdet_lite0')"
    )
    assert not {"tensorflow", "apache_beam", "tf_keras", "tfx"} & added
    # Scripts import `config` first, or `object_detector` alone: each is imported in a separate process.
    code = """
import os
for name in {names}:
    child = os.fork()
    if child == 0:
        exec(f"from detflow.{{name}} import *")
        os._exit(0 if f"detflow.{{name}}" in sys.modules else 1)
    assert os.waitpid(child, 0)[1] == 0, name
"""
    modules_after(code.format(names=list(detflow.__all__)))


def test_every_name_of_the_reference_is_there_and_in_the_wheel():
    assert set(detflow.__all__) <= set(dir(detflow))
    for name in detflow.__all__:
        module = getattr(detflow, name)
        assert module is importlib.import_module(f"detflow.{name}")
        assert all(hasattr(module, public) for public in module.__all__)
    with pytest.raises(AttributeError, match="no attribute 'image_classifier'"):
        detflow.image_classifier  # noqa: B018
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    find = settings["tool"]["setuptools"]["packages"]["find"]
    chosen = find["exclude"], find["include"]
    found = [name for where in find["where"] for name in find_namespace_packages(ROOT / where, *chosen)]
    assert {"detflow", "detflow.object_detector"} <= set(found)
    assert not [name for name in found if name.startswith("pipeline.api")]
    assert (ROOT / "pipeline" / "api" / "detflow" / "py.typed").is_file()


def test_it_has_one_import_name():
    with pytest.raises(
        ImportError, match=r"^expected `import detflow`, found `import pipeline\.api\.detflow`; "
    ):
        importlib.import_module("pipeline.api.detflow")
    assert "pipeline.api.detflow" not in sys.modules


def test_a_name_gives_a_specification_or_is_refused():
    for name, size in (("efficientdet_lite0", 320), ("efficientdet_lite2", 448), ("efficientdet_lite4", 640)):
        spec = model_spec.get(name, epochs=3)
        assert (spec.epochs, spec.batch_size, spec.config.image_size) == (3, 64, (size, size))
        assert model_spec.get(spec) is spec
    assert model_spec.get(object_detector.EfficientDetLite1Spec, batch_size=4).batch_size == 4
    assert len(model_spec.OBJECT_DETECTION_MODELS) == 5
    cases = [
        ("efficientdet_lite5", "^model_spec: .*did you mean efficientdet_lite"),
        ("bert_qa", "^model_spec: .*other tasks"),
    ]
    assert not not_refused(model_spec.get, cases, ConfigError)


DATA = SimpleNamespace()

DType = enum.Enum("DType", ["uint8", "int16"])  # as TensorFlow has them: objects with a name


def test_what_is_asked_for_and_what_files_have_not_is_refused():
    for config, file_format, steps in (
        (QuantizationConfig.for_int8(DATA), "int8", 500),
        (QuantizationConfig.for_int8(DATA, quantization_steps=8), "int8", 8),
        (QuantizationConfig.for_float16(), "float16", None),
        (QuantizationConfig.for_dynamic(), "dynamic_range", None),
        (QuantizationConfig(optimizations=[]), "float32", None),
        (QuantizationConfig(representative_data=DATA), "int8", 500),
        (QuantizationConfig.for_int8(DATA, inference_input_type="int8"), "int8_int8_input", 500),
        (QuantizationConfig.for_int8(DATA, inference_input_type="float32"), "int8_float32_input", 500),
        (QuantizationConfig.for_int8(DATA, inference_input_type="uint8"), "int8", 500),
        (QuantizationConfig.for_int8(DATA, inference_input_type=DType.uint8), "int8", 500),
    ):
        assert (config.file_format, config.quantization_steps) == (file_format, steps)
        assert file_format in repr(config)
    cases = [
        ({"inference_input_type": DType.int16}, "^inference_input_type: "),
        ({"inference_output_type": "int8"}, "^inference_output_type: "),
        ({"supported_ops": "SELECT_TF_OPS"}, "^supported_ops: "),
        ({"supported_types": ["int4"]}, "^supported_types: "),
        ({"quantization_steps": 0}, "^quantization_steps: "),
    ]
    assert not not_refused(lambda given: QuantizationConfig(**given), cases, ConfigError)
    assert quantization.QuantizationConfig is QuantizationConfig
    assert [item.name for item in ExportFormat][:3] == ["TFLITE", "SAVED_MODEL", "LABEL"]


UPDATE = ProgressUpdate(job="train", done=1, total=2)


def test_progress_is_printed_where_no_log_shows_it_and_warnings_go_where_they_went(capsys, caplog):
    with shown_progress():
        log_reporter(UPDATE)
        with shown_progress():
            log_reporter(UPDATE)
    assert capsys.readouterr().out == "train | step 1/2\n" * 2
    log_reporter(UPDATE)
    assert capsys.readouterr().out == "" and logging.getLogger("detection_core").propagate
    with shown_progress():
        logging.getLogger("detflow.any").warning("without effect")
    assert caplog.messages == ["without effect"] and capsys.readouterr().out == ""
    with caplog.at_level(logging.INFO, "detection_core"), shown_progress():
        log_reporter(UPDATE)
    assert caplog.messages[1:] == ["train | step 1/2"] and capsys.readouterr().out == ""


def test_counts_and_numbers():
    check_count("epochs", 1)
    check_counts(num_shards=3, max_num_images=None)
    cases = [(count, "^epochs: ") for count in (0, -1, 2.0, "3", True, None)]
    assert not not_refused(lambda count: check_count("epochs", count), cases, ConfigError)
    assert [is_number(value) for value in (1, 0.5, True, "1", None)] == [True, True, False, False, False]
