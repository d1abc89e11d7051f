import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from detection_core.artifacts.tflite_graph import read_graph
from detection_core.errors import ModelError


@pytest.fixture(scope="module")
def content() -> bytes:
    """A small integer network."""
    kernel = tf.random.stateless_uniform([3, 3, 3, 4], [1, 2], -1.0, 1.0)
    function = tf.function(lambda x: tf.nn.relu6(tf.nn.conv2d(x, kernel, 2, "SAME")))
    spec = tf.TensorSpec([1, 8, 8, 3], tf.float32, name="image")
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [function.get_concrete_function(spec)], tf.Module()
    )
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: [[tf.random.stateless_uniform([1, 8, 8, 3], [0, 1])]]
    converter.inference_input_type = converter.inference_output_type = tf.uint8
    return bytes(converter.convert())


def test_the_graph_is_the_one_that_litert_sees(content):
    graph = read_graph(content)
    interpreter = Interpreter(
        model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    )
    interpreter.allocate_tensors()
    seen = interpreter._get_ops_details()
    assert [op.name for op in graph.operators] == [op["op_name"] for op in seen]
    assert [op.outputs for op in graph.operators] == [tuple(op["outputs"]) for op in seen]
    for details in interpreter.get_tensor_details():
        tensor = graph.tensors[details["index"]] if details["index"] < len(graph.tensors) else None
        if tensor is None:
            continue  # scratch memory of a kernel
        assert (tensor.name, tensor.shape) == (details["name"], tuple(details["shape"]))
        assert tensor.dtype == details["dtype"].__name__
        scales = details["quantization_parameters"]["scales"]
        assert (tensor.quantization.scale if tensor.quantization else ()) == pytest.approx(scales)
        if tensor.quantization:
            assert tensor.quantization.zero_point == tuple(details["quantization_parameters"]["zero_points"])
    assert graph.inputs == tuple(d["index"] for d in interpreter.get_input_details())
    assert graph.tensors[graph.inputs[0]].dtype == "uint8"
    graph = read_graph(content)
    assert not any(graph.tensors[i].is_constant for i in (*graph.inputs, *graph.outputs))
    (conv,) = [op for op in graph.operators if op.name == "CONV_2D"]
    assert all(graph.tensors[i].is_constant for i in conv.inputs[1:])
    assert graph.operator_counts() == {"QUANTIZE": 2, "CONV_2D": 1}
    with pytest.raises(ModelError, match=r"m\.tflite: expected a whole TensorFlow Lite file"):
        read_graph(content[: len(content) // 2], where="m.tflite")
