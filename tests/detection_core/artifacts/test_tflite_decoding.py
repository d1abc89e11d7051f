import numpy as np

from detection_core.artifacts.tflite_decoding import BoxDecoding, read_decoding
from detection_core.artifacts.tflite_metadata import read_description, read_tensor_names
from detection_core.errors import ModelError
from detection_core.exporters.tflite_description import add_description
from tests.support.bare_tflite import ANCHORS, DECODING, DESCRIPTION, heads
from tests.support.cases import cases, refused


@cases(True, False)
def test_what_is_written_is_read_back_and_damage_is_a_clear_error(*, sigmoid):
    written = BoxDecoding(anchors=ANCHORS, scales=DECODING.scales, num_classes=3, sigmoid=sigmoid)
    content = add_description(heads(), DESCRIPTION, written)
    found = read_decoding(content)
    np.testing.assert_array_equal(found.anchors, ANCHORS)
    assert (found.scales, found.num_classes, found.sigmoid) == (DECODING.scales, 3, sigmoid)
    assert read_description(content) == DESCRIPTION
    assert read_tensor_names(content) == (("image",), ("score", "location"))
    start = content.index(b"V001") - 4
    damaged = content[:start] + b"\xff\xff\xff\x7f" + content[start + 4 :]
    refused(ModelError, r"heads\.tflite", read_decoding, damaged, where="heads.tflite")
    assert read_decoding(heads()) is None
