import collections

import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from detection_core.artifacts.tflite_graph import read_graph
from detection_core.errors import ModelError
from tests.support.cases import refused
from tests.support.tiny_files import integer_file


def test_the_graph_is_the_one_that_litert_sees():
    content = integer_file()
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
    assert not any(graph.tensors[i].is_constant for i in (*graph.inputs, *graph.outputs))
    for convolution in (op for op in graph.operators if op.name == "CONV_2D"):
        assert all(graph.tensors[i].is_constant for i in convolution.inputs[1:])
    counts = graph.operator_counts()
    assert counts == collections.Counter(op["op_name"] for op in seen)
    assert list(counts.values()) == sorted(counts.values(), reverse=True)
    found = r"m\.tflite: expected a whole TensorFlow Lite file"
    refused(ModelError, found, read_graph, content[: len(content) // 2], where="m.tflite")
