import sys

import numpy as np
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.tools import flatbuffer_utils

from detection_core.errors import ExportError
from detection_core.exporters.tflite_quantizer import KERNEL_BITS_8, quantize_weights
from tests.support.cases import cases, refused
from tests.support.edge_files import converted
from tests.support.tflite_operations import infer
from tests.support.tiny_files import INPUTS, decibels, file_of, heads_of, levels_of


def test_heads_that_levels_share_are_right_on_every_level():
    """TensorFlow's converter gives the bias that both levels share the scale of one of them."""
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
