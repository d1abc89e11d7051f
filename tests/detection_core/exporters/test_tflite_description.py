import io
import zipfile

import numpy as np
from tensorflow.lite.python import schema_py_generated as schema

from detection_core.artifacts.tflite_metadata import METADATA_NAME, TFLiteDescription, read_description
from detection_core.exporters.tflite_description import add_description
from tests.support.tflite_operations import infer
from tests.support.tiny_files import file_of

DESCRIPTION = TFLiteDescription(
    name="tiny", mean=(127.5, 100.0, 0.0), std=(127.5, 50.0, 1.0), labels=("null", "eins", "zwölf")
)


def test_a_description_is_read_back_by_all_and_changes_no_result():
    named = file_of("float32")
    content = add_description(named, DESCRIPTION)
    assert read_description(content) == DESCRIPTION
    assert add_description(named, DESCRIPTION) == content
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
