import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from detection_core.exporters.tflite_formats import FORMATS, file_name
from tests.support.cases import cases
from tests.support.tflite_operations import list_operations
from tests.support.tiny_files import convert, file_of, inputs_of, run

pytestmark = pytest.mark.slow

# Format to the types of a convolution's input and kernel, and how far its scores lie from float32's.
EXPECTED = {
    "float32": ("float32", "float32", 0.0),
    "float16": ("float32", "float32", 2e-3),
    "dynamic_range": ("float32", "float32", 0.1),  # so small kernels stay in float32
    **dict.fromkeys(
        ("int8", "int8_post_training", "int8_mixed", "int8_int8_input", "int8_float32_input"),
        ("int8", "int8", 0.15),
    ),
    "int16x8": ("int16", "int8", 0.03),
    "int8_weights": ("float32", "float32", 0.03),
    "int4_weights": ("float32", "float32", 0.3),
}
OF_TRAINED_WEIGHTS = ("float16", "dynamic_range", "int16x8", "int8_weights", "int4_weights")
INTEGER_INPUTS = {"int8": np.uint8, "int8_post_training": np.uint8, "int8_int8_input": np.int8}


@cases(*EXPECTED)
def test_a_file_computes_in_its_types_what_the_float_file_does(*, name):
    activations, kernels, tolerance = EXPECTED[name]
    content, plain = file_of(name), file_of("float32")
    operations = list_operations(content)
    convolutions = [op for op in operations if op.name in ("CONV_2D", "DEPTHWISE_CONV_2D")]
    assert {op.inputs[:2] for op in convolutions} == {(activations, kernels)}
    (post_process,) = (op for op in operations if op.name == "TFLite_Detection_PostProcess")
    assert {*post_process.inputs, *post_process.outputs} == {"float32"}
    for taken, wanted in zip(inputs_of(content), inputs_of(plain), strict=True):
        found, expected = run(content, taken), run(plain, wanted)
        assert found["output_0"] == expected["output_0"]
        np.testing.assert_allclose(found["output_1"], expected["output_1"], atol=tolerance, rtol=0)
        # Classes are whole numbers, in whatever the network computes.
        assert set(np.unique(found["output_2"])) <= {0.0, 1.0, 2.0}


def test_types_of_inputs_and_weights_are_every_format_s_and_bytes_always_the_same():
    aware = [f"{name}_aware" for name in OF_TRAINED_WEIGHTS]
    assert [*EXPECTED, "int8_mixed_aware", *aware] == list(FORMATS)
    for name in OF_TRAINED_WEIGHTS:  # the same conversion, of another network
        assert FORMATS[f"{name}_aware"].convert is FORMATS[name].convert
    assert [file_name(name) for name in ("float32", "int8")] == ["model_float32.tflite", "model_int8.tflite"]
    for name in (*INTEGER_INPUTS, "int8_float32_input", "int16x8"):
        (taken,) = Interpreter(model_content=file_of(name)).get_input_details()
        assert taken["dtype"] == INTEGER_INPUTS.get(name, np.float32), name
    stored = {
        name: sorted(op.inputs[0] for op in list_operations(file_of(name)) if op.name == "DEQUANTIZE")
        for name in ("float16", "int8_weights", "int4_weights")
    }
    kernels = 7  # stem, depthwise, project, fine, coarse, tower, and the joined or own heads' two, less one
    assert set(stored["float16"]) == {"float16"}
    assert set(stored["int8_weights"]) == {"int8"} and len(stored["int8_weights"]) >= kernels
    assert set(stored["int4_weights"]) == {"int4", "int8"}
    assert stored["int4_weights"].count("int8") == 1  # the depthwise convolution
    for name in ("int8", "int16x8", "int4_weights"):
        assert convert(name) == file_of(name), name
