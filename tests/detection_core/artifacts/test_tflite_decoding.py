"""How a file's heads are decoded is read as it was written."""

import functools

import flatbuffers
import numpy as np
import pytest
from tensorflow.lite.python import schema_py_generated as schema

from detection_core.artifacts.tflite_decoding import BoxDecoding, read_decoding
from detection_core.artifacts.tflite_metadata import TFLiteDescription, read_description, read_tensor_names
from detection_core.errors import ModelError
from detection_core.exporters.tflite_description import add_description
from tests.support.cases import cases

ANCHORS = np.random.default_rng(0).uniform(0, 1, (7, 4)).astype(np.float32)
DECODING = BoxDecoding(anchors=ANCHORS, scales=(10.0, 11.0, 5.0, 6.0), num_classes=3, sigmoid=True)
DESCRIPTION = TFLiteDescription(
    name="heads", mean=(0.0,), std=(1.0,), labels=("a", "b", "c"), score_threshold=0.25
)


@functools.cache
def heads() -> bytes:
    """A file without operations, with the outputs of a file without post-processing in another order."""
    model, graph, signature = schema.ModelT(), schema.SubGraphT(), schema.SignatureDefT()
    model.version, model.buffers, graph.tensors, graph.operators = 3, [schema.BufferT()], [], []
    for name, shape in (("input", [1, 4, 4, 3]), ("score", [1, 7, 3]), ("location", [1, 7, 4])):
        tensor = schema.TensorT()
        tensor.name, tensor.shape = name, shape
        graph.tensors.append(tensor)
    graph.inputs, graph.outputs = [0], [1, 2]
    signature.signatureKey, signature.inputs, signature.outputs = "serving_default", [], []
    for index, name in ((1, "score"), (2, "location")):
        entry = schema.TensorMapT()
        entry.name, entry.tensorIndex = name, index
        signature.outputs.append(entry)
    model.subgraphs, model.signatureDefs, model.operatorCodes = [graph], [signature], []
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


@cases(True, False)
def test_what_is_written_is_read_back(*, sigmoid):
    written = BoxDecoding(anchors=ANCHORS, scales=DECODING.scales, num_classes=3, sigmoid=sigmoid)
    content = add_description(heads(), DESCRIPTION, written)
    found = read_decoding(content)
    np.testing.assert_array_equal(found.anchors, ANCHORS)
    assert (found.scales, found.num_classes, found.sigmoid) == (DECODING.scales, 3, sigmoid)
    assert read_description(content) == DESCRIPTION
    assert read_tensor_names(content) == (("image",), ("score", "location"))


def test_a_file_that_says_nothing_of_it_has_none():
    assert read_decoding(heads()) is None


def test_a_damaged_record_is_a_clear_error():
    content = add_description(heads(), DESCRIPTION, DECODING)
    start = content.index(b"V001") - 4
    damaged = content[:start] + b"\xff\xff\xff\x7f" + content[start + 4 :]
    with pytest.raises(ModelError, match=r"heads\.tflite"):
        read_decoding(damaged, where="heads.tflite")
