"""Files of every format against the network that they were made from."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from detection_core.artifacts.tflite_graph import read_graph
from detection_core.detectors.ssd.tflite import tflite_function
from detection_core.errors import ModelError
from detection_core.exporters.tflite_formats import FORMATS
from detection_core.exporters.tflite_layers import (
    MOST_DB,
    LayerParity,
    ReferenceNetwork,
    compare_layers,
    first_apart,
)
from tests.detection_core.exporters.test_tflite import OPTIONS
from tests.detection_core.exporters.test_tflite_formats import EXPECTED, PIXELS, file_of, network


def inputs_of(content: bytes) -> list[np.ndarray]:
    (taken,) = Interpreter(model_content=content).get_input_details()
    if taken["dtype"] == np.float32:
        return [pixels[np.newaxis] / np.float32(127.5) - 1 for pixels in PIXELS]
    least = np.iinfo(taken["dtype"]).min
    return [(pixels[np.newaxis] + least).astype(taken["dtype"]) for pixels in PIXELS]


def compared(content: bytes, name: str) -> list[LayerParity]:
    integer = FORMATS[name].integer
    with ReferenceNetwork(tflite_function(network(integer), OPTIONS, integer=integer)) as reference:
        found = compare_layers(content, reference, inputs_of(content))
    assert found.unmatched_heads == ()
    return found.layers


@pytest.mark.parametrize("name", EXPECTED)
def test_a_file_keeps_to_its_format_s_tolerance_in_every_layer(name):
    layers = compared(file_of(name), name)
    heads = [layer.layer for layer in layers if layer.is_head]
    assert heads == ["box_codes", "class_logits"]
    # Convolutions and sums of both levels, each once; nothing of post-processing.
    assert sum(layer.operation == "CONV_2D" for layer in layers) >= 9
    assert not {layer.operation for layer in layers} & {"LOGISTIC", "TFLite_Detection_PostProcess"}
    assert first_apart(layers, FORMATS[name].tolerance.heads_db) is None
    if name == "float32":
        assert {layer.db for layer in layers} == {MOST_DB}


@pytest.mark.parametrize("name", ["float32", "int8"])
def test_a_file_that_was_damaged_parts_where_the_damage_is(name):
    """The weights of one convolution in the middle are changed, so that all before it is as it was."""
    content = bytearray(file_of(name))
    graph = read_graph(bytes(content))
    (operator,) = (
        op
        for op in graph.operators
        if op.name == "CONV_2D" and "coarse/BiasAdd" in graph.tensors[op.outputs[0]].name
    )
    interpreter = Interpreter(model_content=bytes(content), experimental_preserve_all_tensors=True)
    interpreter.allocate_tensors()
    kernel = np.ascontiguousarray(interpreter.get_tensor(operator.inputs[1])).tobytes()
    place = bytes(content).index(kernel)
    content[place : place + len(kernel)] = bytes(len(kernel))
    layers = compared(bytes(content), name)
    apart = first_apart(layers, FORMATS[name].tolerance.heads_db)
    assert (apart.layer, apart.operation) == ("coarse", "CONV_2D")
    assert min(layer.db for layer in layers if layer.is_head) < 10


def test_without_inputs_there_is_nothing_to_compare():
    reference = ReferenceNetwork(tflite_function(network(False), OPTIONS, integer=False))
    with reference, pytest.raises(ModelError, match="expected at least one input"):
        compare_layers(file_of("float32"), reference, [])


def test_a_head_that_the_network_does_not_have_is_named():
    """The reference is another network: what it has not by name is compared with nothing."""

    @tf.function(input_signature=[tf.TensorSpec([1, 32, 32, 3], tf.float32, name="input")])
    def other(pixels):
        return tf.identity(pixels, name="pixels")

    content = file_of("float32")
    with ReferenceNetwork(other.get_concrete_function()) as reference:
        found = compare_layers(content, reference, inputs_of(content))
    assert found.layers == []
    assert len(found.unmatched_heads) == 2
    assert "box_codes" in found.unmatched_heads[0] and "class_logits" in found.unmatched_heads[1]
