"""A whole detector against the reference, and what holds of it beyond."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from detection_core.detectors.base import REGULARIZATION_LOSS, TOTAL_LOSS
from detection_core.detectors.ssd.model import CLASSIFICATION_LOSS, LOCALIZATION_LOSS, SsdModel
from detection_core.errors import ModelError
from tests.support.batches import images_of
from tests.support.golden_networks import (
    MOBILE,
    WITH_FORWARD,
    assert_outputs,
    assert_same_detections,
    build_golden,
    load_golden,
    sample,
    train_predict,
)


def _names() -> list:
    return [name if name in MOBILE else pytest.param(name, marks=pytest.mark.slow) for name in WITH_FORWARD]


@functools.cache
def _golden(name):
    """A configuration and its detector, which all tests share and none may change."""
    return load_golden(name), build_golden(name)


@pytest.fixture(params=_names())
def case(request):
    return _golden(request.param)


def test_parameters_and_preprocessing_are_those_of_the_reference(case):
    golden, model = case
    facts = golden.facts
    trainable = sum(int(np.prod(v.shape)) for v in model.network.trainable_variables)
    frozen = sum(int(np.prod(v.shape)) for v in model.network.non_trainable_variables)
    assert trainable == facts["parameters"]["trainable"]
    assert frozen == facts["parameters"]["non_trainable"]
    pixels = [facts["preprocess"][f"{which}_pixel_in"] for which in ("first", "last")]
    wanted = [facts["preprocess"][f"{which}_pixel_out"] for which in ("first", "last")]
    np.testing.assert_allclose(SsdModel.preprocess(model, tf.constant(pixels)), wanted, rtol=1e-6, atol=1e-6)


def test_forward_pass_and_detections_are_those_of_the_reference(case):
    golden, model = case
    predictions = model.predict(golden.images, training=False)
    assert_outputs(golden, golden.arrays, model, predictions)
    assert_same_detections(golden.arrays, model.suppress(predictions, golden.images.true_sizes)[0])


def test_losses_are_those_of_the_reference(case):
    golden, model = case
    predictions = train_predict(model, golden.images)
    np.testing.assert_allclose(
        sample(predictions.box_codes), golden.arrays["train_predict/box_encodings"], rtol=1e-2, atol=1e-2
    )
    losses = model.compare(predictions, golden.truth)
    for name in (LOCALIZATION_LOSS, CLASSIFICATION_LOSS):
        np.testing.assert_allclose(losses[name], golden.facts["losses"][name], rtol=1e-2)
    np.testing.assert_allclose(losses[REGULARIZATION_LOSS], golden.facts["regularization_loss"], rtol=1e-5)
    parts = [losses[name] for name in (LOCALIZATION_LOSS, CLASSIFICATION_LOSS, REGULARIZATION_LOSS)]
    np.testing.assert_allclose(losses[TOTAL_LOSS], sum(parts), rtol=1e-6)


def test_images_of_another_size_are_refused():
    with pytest.raises(ModelError, match="expected images of 300x300, found 200x300"):
        _golden(MOBILE[0])[1].predict(images_of(np.zeros((1, 200, 300, 3))), training=False)


def test_a_rewritten_network_keeps_the_detector_and_its_regularizers():
    golden, model = _golden(MOBILE[1])
    other = build_golden(MOBILE[1]).network
    for variable in other.trainable_variables:
        variable.assign(2.0 * variable)
    rewritten = model.with_network(other)
    assert rewritten.network is other
    assert isinstance(rewritten, type(model))
    predictions = rewritten.predict(golden.images, training=False)
    regularizer = rewritten.compare(predictions, golden.truth)[REGULARIZATION_LOSS]
    np.testing.assert_allclose(regularizer, 4.0 * golden.facts["regularization_loss"], rtol=1e-5)


def test_detections_are_relative_to_the_true_image():
    golden, model = _golden(MOBILE[1])
    predictions = model.predict(golden.images, training=False)
    half = model.suppress(predictions, tf.constant([[160, 320], [160, 320]]))[0]
    raw = model.raw_detections(predictions)
    assert float(tf.reduce_max(half.boxes)) <= 1.0
    best = tf.argmax(
        tf.reduce_max(raw.scores[0, :, 1:], axis=-1) * tf.cast(raw.boxes[0, :, 0] < 0.5, tf.float32)
    )
    clipped = tf.clip_by_value(raw.boxes[0, best], 0.0, [0.5, 1.0, 0.5, 1.0]) / [0.5, 1.0, 0.5, 1.0]
    np.testing.assert_allclose(half.boxes[0, 0], clipped, atol=1e-5)
