"""A SavedModel of a quantized detector computes with fake quantization."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from detection_core.data.resize import FixedShapeResizer
from detection_core.exporters.signatures import write_saved_model
from detection_core.quantization.options import QuantizationOptions
from detection_core.quantization.rewriting import rewrite
from tests.support.tiny_detector import TinyDetector

IMAGE = np.random.default_rng(4).integers(0, 256, (1, 32, 32, 3)).astype(np.uint8)


def served_scores(model: TinyDetector, folder) -> np.ndarray:
    write_saved_model(model, FixedShapeResizer(height=32, width=32), str(folder))
    loaded = tf.saved_model.load(str(folder))
    return loaded.signatures["serving_default"](tf.constant(IMAGE))["raw_detection_scores"].numpy()


def test_quantization_is_on_in_what_is_served_even_when_its_delay_never_passed(tmp_path):
    step = tf.Variable(0, dtype=tf.int64)
    rewritten = rewrite(TinyDetector(), QuantizationOptions(delay=1000, weight_bits=3), step=step)
    rewritten.calibrate([tf.constant(IMAGE, tf.float32)])
    _, logits = rewritten.model.network(IMAGE / np.float32(127.5) - 1, training=False)
    served = served_scores(rewritten.model, tmp_path / "quantized")
    np.testing.assert_allclose(served, tf.sigmoid(logits), atol=1e-4)
    assert np.abs(served - served_scores(TinyDetector(), tmp_path / "float")).max() > 0.05
