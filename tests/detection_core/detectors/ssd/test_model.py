import numpy as np
import pytest
import tensorflow as tf

from detection_core.detectors.base import REGULARIZATION_LOSS, TOTAL_LOSS
from detection_core.detectors.ssd.model import CLASSIFICATION_LOSS, LOCALIZATION_LOSS, SsdModel
from detection_core.errors import ModelError
from detection_core.structures import Images
from tests.support.golden_networks import (
    MOBILE,
    WITH_FORWARD,
    build_golden,
    load_golden,
    sample,
)

TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}


def _names() -> list:
    return [name if name in MOBILE else pytest.param(name, marks=pytest.mark.slow) for name in WITH_FORWARD]


@pytest.fixture(scope="module", params=_names())
def case(request):
    return load_golden(request.param), build_golden(request.param)


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
    arrays = golden.arrays
    predictions = model.predict(golden.images, training=False)
    anchors = golden.facts["anchors"]
    assert predictions.anchors.shape == (anchors["count"], 4)
    np.testing.assert_allclose(predictions.anchors[:8], anchors["first_8"], atol=1e-6)
    np.testing.assert_allclose(predictions.anchors[-8:], anchors["last_8"], atol=1e-6)
    sums = predictions.anchors.numpy().astype(np.float64).sum(axis=0)
    np.testing.assert_allclose(sums, anchors["checksum_column_sums"], rtol=1e-6)
    np.testing.assert_allclose(sample(predictions.box_codes), arrays["predict/box_encodings"], **TOLERANCE)
    np.testing.assert_allclose(
        sample(predictions.class_logits), arrays["predict/class_predictions_with_background"], **TOLERANCE
    )
    raw = model.raw_detections(predictions)
    np.testing.assert_allclose(sample(raw.boxes), arrays["postprocess/raw_detection_boxes"], **TOLERANCE)
    np.testing.assert_allclose(sample(raw.scores), arrays["postprocess/raw_detection_scores"], **TOLERANCE)
    found = model.suppress(predictions, golden.images.true_sizes)[0]
    np.testing.assert_array_equal(found.count, arrays["postprocess/num_detections"])
    np.testing.assert_allclose(sample(found.scores), arrays["postprocess/detection_scores"], **TOLERANCE)
    # Neighbours whose scores differ by less than rounding can swap, or suppress one another the other way.
    wanted = arrays["postprocess/detection_boxes"].reshape(-1, 4)
    same = np.isclose(np.reshape(found.boxes, (-1, 4)), wanted, **TOLERANCE).all(axis=1)
    same &= np.reshape(found.classes, -1) == arrays["postprocess/detection_classes"]
    assert same.mean() > 0.95


def test_losses_are_those_of_the_reference(case):
    golden, model = case
    predictions = model.predict(golden.images, training=True)
    np.testing.assert_allclose(
        sample(predictions.box_codes), golden.arrays["train_predict/box_encodings"], rtol=1e-2, atol=1e-2
    )
    losses = model.compare(predictions, golden.truth)
    for name in (LOCALIZATION_LOSS, CLASSIFICATION_LOSS):
        np.testing.assert_allclose(losses[name], golden.facts["losses"][name], rtol=1e-2)
    np.testing.assert_allclose(losses[REGULARIZATION_LOSS], golden.facts["regularization_loss"], rtol=1e-5)
    parts = [losses[name] for name in (LOCALIZATION_LOSS, CLASSIFICATION_LOSS, REGULARIZATION_LOSS)]
    np.testing.assert_allclose(losses[TOTAL_LOSS], sum(parts), rtol=1e-6)


def _small_batch(height: int, width: int) -> Images:
    sizes = tf.constant([[height, width]])
    return Images(tf.zeros([1, height, width, 3]), sizes, sizes, tf.constant([""]))


def test_images_of_another_size_are_refused():
    model = build_golden(MOBILE[0])
    with pytest.raises(ModelError, match="expected images of 300x300, found 200x300"):
        model.predict(_small_batch(200, 300), training=False)


def test_a_rewritten_network_keeps_the_detector_and_its_regularizers():
    golden, model = load_golden(MOBILE[1]), build_golden(MOBILE[1])
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
    golden, model = load_golden(MOBILE[1]), build_golden(MOBILE[1])
    predictions = model.predict(golden.images, training=False)
    half = model.suppress(predictions, tf.constant([[160, 320], [160, 320]]))[0]
    raw = model.raw_detections(predictions)
    assert float(tf.reduce_max(half.boxes)) <= 1.0
    best = tf.argmax(
        tf.reduce_max(raw.scores[0, :, 1:], axis=-1) * tf.cast(raw.boxes[0, :, 0] < 0.5, tf.float32)
    )
    clipped = tf.clip_by_value(raw.boxes[0, best], 0.0, [0.5, 1.0, 0.5, 1.0]) / [0.5, 1.0, 0.5, 1.0]
    np.testing.assert_allclose(half.boxes[0, 0], clipped, atol=1e-5)
