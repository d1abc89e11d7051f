import io
import zipfile

import flatbuffers
import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter
from tensorflow.lite.python import schema_py_generated as schema

from detection_core.artifacts.tflite_metadata import METADATA_NAME, TFLiteDescription, read_description
from detection_core.exporters.tflite_description import add_description

DESCRIPTION = TFLiteDescription(
    name="tiny", mean=(127.5, 100.0, 0.0), std=(127.5, 50.0, 1.0), labels=("null", "eins", "zwölf")
)


@pytest.fixture(scope="module")
def plain() -> bytes:
    """A file with the four outputs of a detector and no metadata."""

    def serve(x):
        y = tf.reduce_sum(x)
        return tf.reshape(y, [1]), y * tf.ones([1, 2]), y + tf.ones([1, 2]), y - tf.ones([1, 2, 4])

    function = tf.function(serve).get_concrete_function(tf.TensorSpec([1, 4, 4, 3], tf.float32, name="input"))
    module = tf.Module()
    return bytes(tf.lite.TFLiteConverter.from_concrete_functions([function], module).convert())


@pytest.fixture(scope="module")
def named(plain) -> bytes:
    """The same with the names that a SavedModel's signature gives."""
    model = schema.ModelT.InitFromPackedBuf(plain, 0)
    signature = schema.SignatureDefT()
    signature.signatureKey = "serving_default"
    signature.inputs, signature.outputs = [], []
    for place, tensor in enumerate(model.subgraphs[0].outputs):
        entry = schema.TensorMapT()
        entry.name, entry.tensorIndex = f"output_{place}".encode(), tensor
        signature.outputs.append(entry)
    model.signatureDefs = [signature]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def test_a_description_is_read_back_by_all_and_changes_no_result(named):
    content = add_description(named, DESCRIPTION)
    assert read_description(content) == DESCRIPTION
    assert add_description(named, DESCRIPTION) == content
    with zipfile.ZipFile(io.BytesIO(content)) as archive:  # at the end of the file
        assert archive.read("labels.txt").decode() == "null\neins\nzwölf\n"
    image = np.ones((1, 4, 4, 3), np.float32)
    results = []
    for content in (named, add_description(named, DESCRIPTION)):
        interpreter = Interpreter(model_content=content)
        interpreter.allocate_tensors()
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image)
        interpreter.invoke()
        results.append([interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()])
    for before, after in zip(*results, strict=True):
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
