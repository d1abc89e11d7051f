import sys

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.tools import flatbuffer_utils

from detection_core.errors import ExportError
from detection_core.exporters.delegation import make_interpreter
from detection_core.exporters.tflite_quantizer import KERNEL_BITS_8, quantize_weights
from tests.support.tiny_files import INPUTS, decibels, file_of, heads_of, levels_of


def test_heads_that_levels_share_are_right_on_every_level():
    """TensorFlow's converter gives the bias that both levels share the scale of one of them."""
    wanted, found = heads_of(file_of("float32"), INPUTS[0]), heads_of(file_of("int16x8"), INPUTS[0])
    assert found.keys() == wanted.keys() and len(wanted) == 2
    for name, value in wanted.items():
        for level, own in zip(levels_of(value), levels_of(found[name]), strict=True):
            assert decibels(level, own) > 30


@pytest.mark.parametrize("width", [64, 512])
def test_large_weights_outlive_a_second_writing(width):
    """From 256 KB on the package puts weights behind the flatbuffer."""
    rng = np.random.default_rng(0)
    kernel = tf.constant(rng.normal(size=(3, 3, width, 128)), tf.float32)
    function = tf.function(
        lambda x: tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "SAME")),
        input_signature=[tf.TensorSpec([1, 4, 4, width], tf.float32)],
    )
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()])
    content = converter.convert()
    found = quantize_weights(content, KERNEL_BITS_8)
    model = schema.ModelT.InitFromPackedBuf(found, 0)
    again = flatbuffer_utils.convert_object_to_bytearray(model)
    assert 9 * width * 128 < len(again) < 9 * width * 128 * 1.1 + 8192
    image = rng.normal(size=(1, 4, 4, width)).astype(np.float32)
    wanted, got = (_run(bytes(file), image) for file in (content, again))
    assert np.square(got - wanted).sum() < 1e-3 * np.square(wanted).sum()


def _run(content: bytes, image: np.ndarray) -> np.ndarray:
    interpreter = make_interpreter(content, threads=1, delegate="none")
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def test_a_missing_package_is_named_and_nothing_is_printed(capfd, monkeypatch):
    quantize_weights(file_of("float32"), KERNEL_BITS_8)
    assert "it/s" not in capfd.readouterr().err
    monkeypatch.setitem(sys.modules, "ai_edge_quantizer", None)
    with pytest.raises(ExportError, match=r"pip install 'detflow\[quantizer\]'") as caught:
        quantize_weights(file_of("float32"), KERNEL_BITS_8)
    assert caught.value.where == "formats"
