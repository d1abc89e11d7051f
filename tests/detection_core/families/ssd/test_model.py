"""A whole detector against the reference, and what holds of it beyond."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from detection_core.detectors.base import REGULARIZATION_LOSS, TOTAL_LOSS
from detection_core.errors import ModelError
from detection_core.families.ssd.model import CLASSIFICATION_LOSS, LOCALIZATION_LOSS, SsdModel
from tests.support import golden_networks
from tests.support.batches import images_of


@functools.cache
def _golden(name):
    """A configuration and its detector, which all tests share and none may change."""
    return golden_networks.load_golden(name), golden_networks.build_golden(name)


@pytest.mark.parametrize(
    "name",
    [
        n if n in golden_networks.MOBILE else pytest.param(n, marks=pytest.mark.slow)
        for n in golden_networks.WITH_FORWARD
    ],
)
def test_parameters_outputs_detections_and_losses_are_those_of_the_reference(name):
    golden, model = _golden(name)
    facts = golden.facts
    for kind in ("trainable", "non_trainable"):
        variables = getattr(model.network, f"{kind}_variables")
        assert sum(int(np.prod(v.shape)) for v in variables) == facts["parameters"][kind]
    pixels, wanted = (
        [facts["preprocess"][f"{which}_pixel_{end}"] for which in ("first", "last")] for end in ("in", "out")
    )
    np.testing.assert_allclose(SsdModel.preprocess(model, tf.constant(pixels)), wanted, rtol=1e-6, atol=1e-6)
    predictions = model.predict(golden.images, training=False)
    golden_networks.assert_outputs(golden, golden.arrays, model, predictions)
    golden_networks.assert_same_detections(
        golden.arrays, model.suppress(predictions, golden.images.true_sizes)[0]
    )
    predictions = golden_networks.train_predict(model, golden.images)
    codes = golden.arrays["train_predict/box_encodings"]
    np.testing.assert_allclose(golden_networks.sample(predictions.box_codes), codes, rtol=1e-2, atol=1e-2)
    losses = model.compare(predictions, golden.truth)
    for loss in (LOCALIZATION_LOSS, CLASSIFICATION_LOSS):
        np.testing.assert_allclose(losses[loss], facts["losses"][loss], rtol=1e-2)
    np.testing.assert_allclose(losses[REGULARIZATION_LOSS], facts["regularization_loss"], rtol=1e-5)
    parts = [losses[loss] for loss in (LOCALIZATION_LOSS, CLASSIFICATION_LOSS, REGULARIZATION_LOSS)]
    np.testing.assert_allclose(losses[TOTAL_LOSS], sum(parts), rtol=1e-6)


def test_a_rewritten_network_keeps_the_detector_and_its_regularizers():
    golden, model = _golden(golden_networks.MOBILE[1])
    other = golden_networks.build_golden(golden_networks.MOBILE[1]).network
    for variable in other.trainable_variables:
        variable.assign(2.0 * variable)
    rewritten = model.with_network(other)
    assert rewritten.network is other and isinstance(rewritten, type(model))
    predictions = rewritten.predict(golden.images, training=False)
    regularizer = rewritten.compare(predictions, golden.truth)[REGULARIZATION_LOSS]
    np.testing.assert_allclose(regularizer, 4.0 * golden.facts["regularization_loss"], rtol=1e-5)


def test_detections_are_relative_to_the_true_image_and_other_sizes_are_refused():
    golden, model = _golden(golden_networks.MOBILE[1])
    predictions = model.predict(golden.images, training=False)
    half = model.suppress(predictions, tf.constant([[160, 320], [160, 320]]))[0]
    raw, window = model.raw_detections(predictions), [0.5, 1.0, 0.5, 1.0]
    assert float(tf.reduce_max(half.boxes)) <= 1.0
    inside = tf.cast(raw.boxes[0, :, 0] < 0.5, tf.float32)
    best = tf.argmax(tf.reduce_max(raw.scores[0, :, 1:], axis=-1) * inside)
    clipped = tf.clip_by_value(raw.boxes[0, best], 0.0, window) / window
    np.testing.assert_allclose(half.boxes[0, 0], clipped, atol=1e-5)
    with pytest.raises(ModelError, match="expected images of 320x320, found 200x320"):
        model.predict(images_of(np.zeros((1, 200, 320, 3))), training=False)
