import enum
from types import SimpleNamespace

from detection_core import ConfigError
from detflow import quantization
from detflow.config import ExportFormat, QuantizationConfig
from tests.support.refusals import not_refused

DATA = SimpleNamespace()

DType = enum.Enum("DType", ["uint8", "int16"])  # as TensorFlow has them: objects with a name


def test_what_is_asked_for():
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


def test_what_files_have_not_is_refused():
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
