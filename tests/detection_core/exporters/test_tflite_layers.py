import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from detection_core.artifacts.tflite_graph import read_graph
from detection_core.errors import ModelError
from detection_core.exporters import tflite_layers
from detection_core.exporters.tflite_formats import FORMATS
from detection_core.exporters.tflite_layers import ReferenceNetwork, compare_layers, first_apart
from tests.support.cases import cases
from tests.support.tiny_files import FORMATS_OF_ITS_WEIGHTS, file_of, function_of, inputs_of


def compared(reference: ReferenceNetwork, content: bytes) -> list[tflite_layers.LayerParity]:
    found = compare_layers(content, reference, inputs_of(content)[:2])
    assert found.unmatched_heads == ()
    return found.layers


@cases(False, True)
def test_a_file_keeps_to_its_format_s_tolerance_in_every_layer(*, integer):
    with ReferenceNetwork(function_of(integer)) as reference:
        for name in FORMATS_OF_ITS_WEIGHTS:
            if FORMATS[name].integer != integer:
                continue
            layers = compared(reference, file_of(name))
            heads = [layer.layer for layer in layers if layer.is_head]
            assert heads == ["box_codes", "class_logits"], name
            # Convolutions and sums of both levels, each once; nothing of post-processing.
            assert sum(layer.operation == "CONV_2D" for layer in layers) >= 9, name
            assert not {layer.operation for layer in layers} & {"LOGISTIC", "TFLite_Detection_PostProcess"}
            assert first_apart(layers, FORMATS[name].tolerance.heads_db) is None, name
            if name == "float32":
                assert {layer.db for layer in layers} == {tflite_layers.MOST_DB}
        name = "int8" if integer else "float32"
        layers = compared(reference, damaged(file_of(name)))
    apart = first_apart(layers, FORMATS[name].tolerance.heads_db)
    assert (apart.layer, apart.operation) == ("coarse", "CONV_2D")
    assert min(layer.db for layer in layers if layer.is_head) < 10


def damaged(content: bytes) -> bytes:
    """Change the weights of one convolution in the middle, so that all before it is as it was."""
    graph = read_graph(content)
    (operator,) = (
        op
        for op in graph.operators
        if op.name == "CONV_2D" and "coarse/BiasAdd" in graph.tensors[op.outputs[0]].name
    )
    interpreter = Interpreter(model_content=content, experimental_preserve_all_tensors=True)
    interpreter.allocate_tensors()
    kernel = np.ascontiguousarray(interpreter.get_tensor(operator.inputs[1])).tobytes()
    return content.replace(kernel, bytes(len(kernel)), 1)


def test_without_inputs_or_heads_of_that_name_nothing_is_compared():
    reference = ReferenceNetwork(function_of(False))
    with reference, pytest.raises(ModelError, match="expected at least one input"):
        compare_layers(file_of("float32"), reference, [])
    # The reference is another network: what it has not by name is compared with nothing.

    @tf.function(input_signature=[tf.TensorSpec([1, 32, 32, 3], tf.float32, name="input")])
    def other(pixels):
        return tf.identity(pixels, name="pixels")

    content = file_of("float32")
    with ReferenceNetwork(other.get_concrete_function()) as reference:
        found = compare_layers(content, reference, inputs_of(content))
    assert found.layers == []
    assert len(found.unmatched_heads) == 2
    assert "box_codes" in found.unmatched_heads[0] and "class_logits" in found.unmatched_heads[1]
