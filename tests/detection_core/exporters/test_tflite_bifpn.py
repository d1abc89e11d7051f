"""TensorFlow Lite files of a detector with squeeze-and-excitation, swish and BiFPN, run in LiteRT."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from detection_core.detectors.parts.backbones.efficientnet import (
    DEFAULT_HYPERPARAMS,
    EfficientNetOptions,
    efficientnet,
)
from detection_core.detectors.parts.heads.predictions import per_anchor
from detection_core.detectors.parts.layers.network_layers import NetworkLayers
from detection_core.detectors.parts.necks.bifpn import BifpnOptions, bidirectional_pyramid
from detection_core.detectors.parts.necks.bifpn_fusion import WeightedFusion
from detection_core.exporters.delegation import xnnpack_delegation
from detection_core.quantization.options import QuantizationOptions
from detection_core.quantization.rewriting import RewrittenDetector, rewrite
from tests.support.tflite_operations import list_operations
from tests.support.tiny_detector import TinyDetector
from tests.support.tiny_files import PIXELS, run, tflite_of
from tests.support.tiny_network import CLASSES, randomise


@pytest.fixture(scope="module")
def detector() -> TinyDetector:
    """Levels 2 and 3 of an EfficientNet, 8 x 8 and 4 x 4."""
    pixels = tf_keras.Input((32, 32, 3), name="pixels")
    layers = NetworkLayers(hyperparams=DEFAULT_HYPERPARAMS)
    ends = efficientnet(pixels, layers, EfficientNetOptions(version=0, max_level=3))
    # `test_tflite_fusions` has the other ways to combine.
    options = BifpnOptions(
        channels=8, iterations=1, min_level=2, max_level=3, combine_method="fast_attention"
    )
    levels = {level: ends.levels[level] for level in (2, 3)}
    maps = bidirectional_pyramid(levels, layers, options)
    box, classes = layers.conv("box", 2 * 4, 1), layers.conv("class", 2 * (CLASSES + 1), 1)
    outputs = [
        per_anchor([box(features) for features in maps], 4, "box_codes"),
        per_anchor([classes(features) for features in maps], CLASSES + 1, "class_logits"),
    ]
    network = tf_keras.Model(pixels, outputs, name="tiny_bifpn")
    randomise(network, 0)
    for layer in network.layers:
        if isinstance(layer, WeightedFusion):  # a node whose weights are all negative is dead
            layer.combine_weights.assign([[0.7], [1.2]])
    return TinyDetector(network)


@pytest.fixture(scope="module")
def rewritten(detector) -> RewrittenDetector:
    made = rewrite(detector, QuantizationOptions(delay=0))
    made.calibrate([tf.constant(PIXELS)])
    return made


def test_the_float_file_gives_what_the_detector_gives(detector):
    content = tflite_of(detector, integer=False)
    found = run(content, detector.preprocess(PIXELS[:1]))
    _, logits = detector.network(detector.preprocess(PIXELS[:1]), training=False)
    best = tf.reduce_max(tf.sigmoid(logits[0, :, 1:]))
    np.testing.assert_allclose(found["output_1"].max(), best, rtol=1e-4)


def test_fake_quantization_is_close_to_float_and_folds_every_normalisation(detector, rewritten):
    assert rewritten.describe().counts.fraction == 1.0
    pixels = detector.preprocess(tf.constant(PIXELS))
    for plain, quantized in zip(
        detector.network(pixels, training=False), rewritten.model.network(pixels, training=False), strict=True
    ):
        error = tf.sqrt(tf.reduce_mean(tf.square(plain - quantized)))
        assert 0.0 < float(error) < 0.15 * float(tf.math.reduce_std(plain))


def test_all_of_the_network_runs_in_integers_as_one_delegated_part(rewritten):
    content = tflite_of(rewritten.model, integer=True)
    operations = Counter((operation.name, operation.outputs[0]) for operation in list_operations(content))
    for name in ("CONV_2D", "DEPTHWISE_CONV_2D", "MEAN", "MAX_POOL_2D", "CONCATENATION"):
        assert operations[name, "int8"] > 0 and operations[name, "float32"] == 0
    assert operations["ADD", "float32"] == 0
    # The scores, and the product that keeps them in float: behind the network.
    assert operations["LOGISTIC", "float32"] == operations["MUL", "float32"] == 1
    delegation = xnnpack_delegation(content)
    left = [list_operations(content)[index].name for index in delegation.left]
    assert len(delegation.partitions) == 1 and left == ["QUANTIZE", "TFLite_Detection_PostProcess"]
    found = run(content, PIXELS[:1].astype(np.uint8))
    _, logits = rewritten.model.network(rewritten.model.preprocess(PIXELS[:1]), training=False)
    best = tf.reduce_max(tf.sigmoid(logits[0, :, 1:]))
    np.testing.assert_allclose(found["output_1"].max(), best, atol=0.02)
