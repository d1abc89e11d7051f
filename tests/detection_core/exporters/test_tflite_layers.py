"""Layers and descriptions of TensorFlow Lite files."""

import io
import sys
import zipfile
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter
from ai_edge_litert.tools import flatbuffer_utils

from detection_core.artifacts.parity import NetworkParity
from detection_core.artifacts.tflite_file import read_graph
from detection_core.artifacts.tflite_metadata import METADATA_NAME, TFLiteDescription, read_description
from detection_core.errors import ExportError, ModelError
from detection_core.exporters import tflite_layers
from detection_core.exporters.operator_times import xnnpack_delegation
from detection_core.exporters.tflite_description import add_description
from detection_core.exporters.tflite_formats import FORMATS
from detection_core.exporters.tflite_layers import ReferenceNetwork, compare_layers
from detection_core.exporters.tflite_quantizer import (
    KERNEL_BITS_8,
    MOST_BIAS,
    quantize_to_int16,
    quantize_weights,
    restore_biases,
)
from tests.support.cases import cases, refused
from tests.support.edge_files import converted, convolutions, upsampling
from tests.support.tflite_operations import infer
from tests.support.tiny_detector import TinyDetector
from tests.support.tiny_files import (
    FORMATS_OF_ITS_WEIGHTS,
    INPUTS,
    decibels,
    file_of,
    function_of,
    heads_of,
    inputs_of,
    levels_of,
    tflite_of,
)
from tests.support.tiny_network import tiny_network


def compared(reference: ReferenceNetwork, content: bytes, name: str) -> NetworkParity:
    found = compare_layers(content, reference, inputs_of(content)[:2], FORMATS[name].tolerance.heads_db)
    assert found.unmatched == []
    return found


@cases(False, True)
def test_a_file_keeps_to_its_format_s_tolerance_in_every_layer(*, integer):
    with ReferenceNetwork(function_of(integer)) as reference:
        for name in FORMATS_OF_ITS_WEIGHTS:
            if FORMATS[name].integer != integer:
                continue
            found = compared(reference, file_of(name), name)
            layers = found.layers
            assert list(found.heads) == ["box_codes", "class_logits"], name
            # Convolutions and sums of both levels, each once; nothing of post-processing.
            assert sum(layer.operation == "CONV_2D" for layer in layers) >= 9, name
            assert not {layer.operation for layer in layers} & {"LOGISTIC", "TFLite_Detection_PostProcess"}
            assert found.layer_db is None, name
            if name == "float32":
                assert {layer.db for layer in layers} == {tflite_layers.MOST_DB}
        name = "int8" if integer else "float32"
        found = compared(reference, damaged(file_of(name)), name)
    assert (found.layer, found.operation) == ("coarse", "CONV_2D")
    assert min(found.heads.values()) < 10


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


def test_nothing_is_compared_without_heads_and_only_what_xnnpack_lacks_cuts_a_graph_in_two():
    reference = ReferenceNetwork(function_of(False))
    with reference, pytest.raises(ModelError, match="expected at least one input"):
        compare_layers(file_of("float32"), reference, [], 20.0)
    # The reference is another network: what it has not by name is compared with nothing.

    @tf.function(input_signature=[tf.TensorSpec([1, 32, 32, 3], tf.float32, name="input")])
    def other(pixels):
        return tf.identity(pixels, name="pixels")

    content = file_of("float32")
    with ReferenceNetwork(other.get_concrete_function()) as reference:
        found = compare_layers(content, reference, inputs_of(content), 20.0)
    assert found.layers == [] and len(found.unmatched) == 2
    assert "box_codes" in found.unmatched[0] and "class_logits" in found.unmatched[1]
    for between, left, parts in (("", [], [["CONV_2D"] * 2]), ("reverse", ["REVERSE_V2"], [["CONV_2D"]] * 2)):
        content = convolutions(between=between)
        names = [op.name for op in read_graph(content).operators]
        found = xnnpack_delegation(content)
        assert [names[index] for index in found.left] == left
        assert [[names[index] for index in part] for part in found.partitions] == parts


def test_xnnpack_takes_upsampling_in_one_part_and_shared_heads_are_right_on_every_level():
    before = upsampling(6, 10)
    names = [op.name for op in read_graph(before).operators]
    found = xnnpack_delegation(before)
    assert [names[index] for index in found.left] == ["RESIZE_NEAREST_NEIGHBOR"]
    assert len(found.partitions) == 2
    names = read_graph(file_of("int8")).operator_counts()
    assert "RESIZE_NEAREST_NEIGHBOR" not in names and len(xnnpack_delegation(file_of("int8")).partitions) == 1
    # TensorFlow's converter gives the bias that both levels share the scale of one of them.
    wanted, found = heads_of(file_of("float32"), INPUTS[0]), heads_of(file_of("int16x8"), INPUTS[0])
    assert found.keys() == wanted.keys() and len(wanted) == 2
    for name, value in wanted.items():
        for level, own in zip(levels_of(value), levels_of(found[name]), strict=True):
            assert decibels(level, own) > 30


@cases(64, 512)
def test_large_weights_outlive_a_second_writing(*, width):
    """From 256 KB on the package puts weights behind the flatbuffer."""
    rng = np.random.default_rng(0)
    kernel = tf.constant(rng.normal(size=(3, 3, width, 128)), tf.float32)
    content = converted(lambda x: tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "SAME")), [1, 4, 4, width])
    model = schema.ModelT.InitFromPackedBuf(quantize_weights(content, KERNEL_BITS_8), 0)
    again = flatbuffer_utils.convert_object_to_bytearray(model)
    assert 9 * width * 128 < len(again) < 9 * width * 128 * 1.1 + 8192
    image = rng.normal(size=(1, 4, 4, width)).astype(np.float32)
    wanted, got = (infer(bytes(file), image)[0] for file in (content, again))
    assert np.square(got - wanted).sum() < 1e-3 * np.square(wanted).sum()


def test_a_missing_package_is_named_and_nothing_is_printed(capfd, monkeypatch):
    quantize_weights(file_of("float32"), KERNEL_BITS_8)
    assert "it/s" not in capfd.readouterr().err
    monkeypatch.setitem(sys.modules, "ai_edge_quantizer", None)
    found = r"pip install 'detflow\[quantizer\]'"
    assert refused(ExportError, found, quantize_weights, file_of("float32"), KERNEL_BITS_8).where == "formats"


def files_of(change: Callable[[tf_keras.Model], None]) -> tuple[bytes, bytes]:
    """The float file and the int16 file of the tiny network with other weights."""
    network = tiny_network()
    change(network)
    content = tflite_of(TinyDetector(network), integer=False)
    return content, quantize_to_int16(content, INPUTS)


def weaken(network: tf_keras.Model) -> None:
    """A head as training begins, with a dead channel and one that is nearly so."""
    kernel, bias = network.get_layer("class").get_weights()
    kernel *= 1e-3
    kernel[..., 0], kernel[..., 1] = 0.0, kernel[..., 1] * 1e-7
    bias[:] = -4.6
    bias[0], bias[1] = 3.0, -9.0
    network.get_layer("class").set_weights([kernel, bias])


def fade(network: tf_keras.Model) -> None:
    """Activations that are next to nothing, before a ReLU6 that is fused."""
    gamma, beta, mean, variance = network.get_layer("stem_bn").get_weights()
    network.get_layer("stem_bn").set_weights([gamma * 1e-8, beta * 1e-8, mean, variance])


def test_large_biases_and_tiny_activations_are_kept_and_other_files_refused():
    plain, found = files_of(weaken)
    wanted, got = heads_of(plain, INPUTS[0]), heads_of(found, INPUTS[0])
    (logits,) = (name for name in wanted if "class_logits" in name)
    for level, own in zip(levels_of(wanted[logits]), levels_of(got[logits]), strict=True):
        assert decibels(level, own) > 60
        np.testing.assert_allclose(own, level, atol=2e-3)
    interpreter = Interpreter(model_content=found)
    codes = [
        np.abs(interpreter.get_tensor(each["index"])).max()
        for each in interpreter.get_tensor_details()
        if each["dtype"] == np.int64 and each["quantization_parameters"]["scales"].size
    ]
    assert 2**31 < max(codes) <= 1.001 * MOST_BIAS
    plain, found = files_of(fade)
    wanted, got = heads_of(plain, INPUTS[0]), heads_of(found, INPUTS[0])
    assert wanted.keys() == got.keys()
    assert all(decibels(wanted[name], got[name]) > 30 for name in wanted)
    other = converted(lambda x: x + 1, [1, 2])
    with pytest.raises(ExportError, match="expected the 11 convolutions of the float file, found 0 others"):
        restore_biases(other, file_of("float32"))


DESCRIPTION = TFLiteDescription(
    name="tiny", mean=(127.5, 100.0, 0.0), std=(127.5, 50.0, 1.0), labels=("null", "eins", "zwölf")
)


def test_a_description_is_read_back_by_all_and_changes_no_result():
    named = file_of("float32")
    content = add_description(named, DESCRIPTION)
    assert read_description(content) == DESCRIPTION and add_description(named, DESCRIPTION) == content
    with zipfile.ZipFile(io.BytesIO(content)) as archive:  # at the end of the file
        assert archive.read("labels.txt").decode() == "null\neins\nzwölf\n"
    image = np.ones((1, 32, 32, 3), np.float32)
    for before, after in zip(infer(named, image), infer(content, image), strict=True):
        np.testing.assert_array_equal(before, after)
    model = schema.ModelT.InitFromPackedBuf(add_description(named, DESCRIPTION), 0)
    (entry,) = [m for m in model.metadata if m.name.decode() == METADATA_NAME]
    metadata = bytes(model.buffers[entry.buffer].data)
    assert metadata[4:8] == b"M001"
    for name in (b"location", b"category", b"score", b"number of detections", b"detection_result"):
        assert name in metadata
    # The outputs of this file are count, scores, classes, boxes, and the metadata lists them in that order.
    places = [metadata.rindex(name) for name in (b"location", b"category", b"number of detections")]
    assert len(set(places)) == 3
