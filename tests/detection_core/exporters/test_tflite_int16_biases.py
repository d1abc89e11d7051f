from collections.abc import Callable

import numpy as np
import pytest
import tf_keras
from ai_edge_litert.interpreter import Interpreter

from detection_core.errors import ExportError
from detection_core.exporters.tflite_int16_biases import MOST_BIAS, restore_biases
from detection_core.exporters.tflite_quantizer import quantize_to_int16
from tests.support.edge_files import converted
from tests.support.tiny_detector import TinyDetector
from tests.support.tiny_files import INPUTS, decibels, file_of, heads_of, levels_of, tflite_of
from tests.support.tiny_network import tiny_network


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
