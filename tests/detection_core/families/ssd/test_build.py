"""Detectors of one stage as their messages say, and messages that are refused."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from google.protobuf import text_format

from detection_core.builders.detector import build_detector
from detection_core.detectors.base import TOTAL_LOSS
from detection_core.families.ssd.model import LOCALIZATION_LOSS
from detection_core.ops.objects import new_truth
from detection_core.parts.layers.keras_layers import BatchNormalization
from detection_core.protos import model_pb2
from detection_core.structures import GroundTruth, Images
from tests.support.batches import images_of, noise
from tests.support.cases import cases, refused
from tests.support.golden_networks import MOBILE, load_golden
from tests.support.plain_backbone import PLAIN

SMALL = """
  num_classes: 10
  image_resizer { fixed_shape_resizer { height: 128 width: 160 } }
  feature_extractor { depth_multiplier: 0.35 }
"""


def _small(extra: str = "", name: str = MOBILE[1], extractor: str = PLAIN) -> model_pb2.DetectionModel:
    message = load_golden(name).message
    message.ssd.feature_extractor.type = extractor or message.ssd.feature_extractor.type
    text_format.Merge(SMALL + extra, message.ssd)
    return message


def _built(extra: str = "", **options):
    return build_detector(_small(extra), **options)


def _images(batch: int) -> Images:
    return images_of(noise(batch, 128, 160, 3))


def _total(model, predictions, truth) -> float:
    return float(model.compare(predictions, truth)[TOTAL_LOSS])


def _truth(valid: list[list[bool]]) -> GroundTruth:
    mask = tf.constant(valid)
    boxes = tf.tile(tf.constant([[[0.2, 0.2, 0.7, 0.6]]]), [*mask.shape, 1])
    return new_truth(boxes, tf.fill(mask.shape, 3), weights=tf.cast(mask, tf.float32), valid=mask)


@cases(*MOBILE)
def test_a_network_is_one_flat_model_of_stock_layers_that_predicts_and_detects(*, name):
    model = build_detector(_small(name=name, extractor=""))
    for layer in model.network.layers:
        stock = tf_keras.layers.BatchNormalization if type(layer) is BatchNormalization else type(layer)
        assert stock.__module__.startswith("tf_keras.src.")
        assert not isinstance(layer, tf_keras.Model | tf_keras.layers.Lambda)
        assert type(layer).__name__ not in ("TFOpLambda", "SlicingOpLambda")
    names = [layer.name for layer in model.network.layers]
    assert len(set(names)) == len(names)
    assert model.num_classes == 10
    assert model.input_size == (128, 160)
    predictions = model.predict(_images(2), training=False)
    anchors = predictions.anchors.shape[0]
    assert predictions.box_codes.shape == (2, anchors, 4)
    assert predictions.class_logits.shape == (2, anchors, 11)
    found = model.suppress(predictions, _images(2).true_sizes)[0]
    assert found.boxes.shape == (2, 100, 4)
    assert int(tf.reduce_max(found.classes)) < 10


def test_training_steps_lower_the_loss_also_beside_an_image_without_objects():
    model = _built()
    optimizer = tf_keras.optimizers.SGD(0.003)
    images, truth = _images(2), _truth([[True, True], [False, False]])

    @tf.function(autograph=False)
    def step():
        with tf.GradientTape() as tape:
            loss = model.compare(model.predict(images, training=True), truth)[TOTAL_LOSS]
        variables = model.network.trainable_variables
        gradients = tape.gradient(loss, variables)
        assert all(gradient is not None for gradient in gradients)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    losses = [float(step()) for _ in range(3)]
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0]


def test_first_weights_depend_on_the_seed_alone():
    found = []
    for process, seed in ((1, 3), (2, 3), (2, 4)):
        tf.random.set_seed(process)
        found.append(_built(seed=seed).network.get_weights())
    first, again, other = found
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_frozen_batch_norm_keeps_its_statistics():
    model = _built("freeze_batchnorm: true")
    before = [variable.numpy() for variable in model.network.non_trainable_variables]
    trained = model.predict(_images(2), training=True)
    for variable, value in zip(model.network.non_trainable_variables, before, strict=True):
        np.testing.assert_array_equal(variable, value)
    np.testing.assert_array_equal(trained.box_codes, model.predict(_images(2), training=False).box_codes)


def test_box_codes_are_clipped_and_inputs_padded_where_the_config_says_so():
    clip = "weight_shared_convolutional_box_predictor { box_encodings_clip_range { min: -0.001 max: 0.002 } }"
    model = _built(f"box_predictor {{ {clip} }} feature_extractor {{ pad_to_multiple: 96 }}")
    bias = next(v for v in model.network.variables if v.name == "box_head_pointwise/bias:0")
    bias.assign(tf.tile([-1.0, 0.0, 1.0, 0.0015], [6]))
    codes = model.predict(_images(1), training=False).box_codes
    np.testing.assert_allclose(tf.reduce_min(codes), -0.001, rtol=1e-5)
    np.testing.assert_allclose(tf.reduce_max(codes), 0.002, rtol=1e-5)
    assert model.input_size == (128, 160)
    assert model.network.get_layer("input_padding").output_shape == (None, 192, 192, 3)
    assert codes.shape[1] == 6 * (24**2 + 12**2 + 6**2 + 3**2 + 4)


def test_without_a_background_class_scores_still_have_its_column():
    model = _built("add_background_class: false encode_background_as_zeros: true")
    predictions = model.predict(_images(1), training=False)
    assert predictions.class_logits.shape[-1] == 10
    scores = model.raw_detections(predictions).scores
    assert scores.shape[-1] == 11 and not scores.numpy()[..., 0].any()
    assert np.isfinite(_total(model, predictions, _truth([[True, True]])))


def test_an_explicit_background_is_the_first_of_the_classes_that_are_counted():
    model = _built("add_background_class: false explicit_background_class: true")
    assert model.num_classes == 9
    predictions = model.predict(_images(1), training=False)
    raw = model.raw_detections(predictions)
    assert predictions.class_logits.shape[-1] == raw.scores.shape[-1] == 10
    truth = _truth([[True, True]])
    soft = truth._replace(class_scores=tf.one_hot(truth.classes + 1, 10))
    assert _total(model, predictions, truth) == pytest.approx(_total(model, predictions, soft), rel=1e-6)


KEYPOINTS = """
  box_coder { keypoint_box_coder { num_keypoints: 2 } }
  box_predictor { weight_shared_convolutional_box_predictor { box_code_size: 8 } }
"""


def _with_coder(text: str) -> model_pb2.DetectionModel:
    message = _small()
    message.ssd.ClearField("box_coder")
    text_format.Merge(text, message.ssd)
    return message


def test_a_keypoint_coder_learns_and_gives_keypoints():
    model = build_detector(_with_coder(KEYPOINTS))
    images, truth = _images(1), _truth([[True, True]])
    keypoints = np.array([[[[0.3, 0.3], [0.6, 0.5]], [[0.3, 0.3], [np.nan, np.nan]]]], np.float32)
    known, partly = (truth._replace(keypoints=tf.constant(keypoints[:, [i, i]])) for i in (0, 1))
    with tf.GradientTape() as tape:
        predictions = model.predict(images, training=True)
        loss = model.compare(predictions, partly)[LOCALIZATION_LOSS]
    gradients = [g for g in tape.gradient(loss, model.network.trainable_variables) if g is not None]
    assert gradients and all(np.isfinite(g).all() for g in gradients)
    assert 0 < float(loss) < float(model.compare(predictions, known)[LOCALIZATION_LOSS])
    outputs = model.serving_outputs(images)
    assert outputs["detection_keypoints"].shape == (1, outputs["detection_boxes"].shape[1], 2, 2)
    refused(ValueError, "expected 2 keypoints of each object, found 0", model.compare, predictions, truth)


def test_codes_of_three_numbers_fit_a_head_for_them():
    text = KEYPOINTS.replace("keypoint_box_coder { num_keypoints: 2 }", "square_box_coder {}")
    model = build_detector(_with_coder(text.replace("8", "3")))
    predictions = model.predict(_images(1), training=False)
    assert predictions.box_codes.shape[-1] == 3
    assert np.isfinite(_total(model, predictions, _truth([[True]])))
