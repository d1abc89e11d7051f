"""A whole EfficientDet: losses, detections, padding and crowds."""

import numpy as np
import pytest
import tensorflow as tf

from detection_core.builders.input_pipeline import build_image_resizer
from detection_core.detectors.base import REGULARIZATION_LOSS, TOTAL_LOSS
from detection_core.errors import ModelError
from detection_core.families.efficientdet.build import build_efficientdet, suppression_options
from detection_core.families.efficientdet.losses import CLASSIFICATION_LOSS, IOU_LOSS, LOCALIZATION_LOSS
from detection_core.families.efficientdet.post_process import detections_px
from detection_core.ops.objects import new_truth
from detection_core.protos.efficientdet_pb2 import EfficientDet
from detection_core.structures import Batch
from tests.support import efficientdet_goldens as goldens
from tests.support.batches import images_of, noise
from tests.support.cases import cases


def _truth(case, side):
    given = goldens.given("training_step", case)
    return goldens.padded_truth((given[f"boxes_{i}"] / side, given[f"classes_{i}"]) for i in range(2))


@pytest.fixture(scope="module")
def detector():
    return goldens.small_detector()


@pytest.mark.slow
def test_losses_equal_those_of_a_step_of_the_reference():
    """Evaluation first: training moves the averages of normalisations.

    tests/detection_core/config/automl/test_training_step.py compares updates, also with the default losses.
    """
    case = goldens.cases("training_step")["ciou_smoothing"]
    fields = {name: value for name, value in case["params"].items() if name != "inputs"}
    message = goldens.message(
        "efficientdet-d0", 128, mean_rgb=[0.0], stddev_rgb=[1.0], num_classes=4, **fields
    )
    detector = build_efficientdet(message, "model.efficientdet", None)
    goldens.set_deterministic_weights(detector.network, detector.parts.settings)
    pixels = np.random.RandomState(0).standard_normal((2, 128, 128, 3)).astype(np.float32)
    batch = Batch(images_of(pixels), _truth("ciou_smoothing", 128))
    for training, key in ((False, "evaluation_losses"), (True, "step_1")):
        found, expected = detector.losses(batch, training), case["fact"][key]
        wanted = {
            CLASSIFICATION_LOSS: expected["cls_loss"], LOCALIZATION_LOSS: 50 * expected["box_loss"],
            REGULARIZATION_LOSS: expected["reg_l2_loss"], TOTAL_LOSS: expected["loss"],
            IOU_LOSS: expected.get("box_iou_loss"),
        }  # fmt: skip
        for name, value in wanted.items():
            if value is not None:
                np.testing.assert_allclose(found[name], value, 1e-3, err_msg=name)


def test_padding_is_nothing_whatever_its_colour(detector):
    pixels = noise(1, 64, 64, 3)
    black, white = pixels.copy(), pixels.copy()
    black[:, 40:], white[:, 40:] = 0.0, 255.0
    found = [detector.detect(images_of(each, [[40, 64]])) for each in (black, white)]
    np.testing.assert_array_equal(found[0].scores, found[1].scores)
    np.testing.assert_array_equal(found[0].boxes, found[1].boxes)
    detector, given = goldens.small_detector(None, scale_range=True), []
    detector.run = lambda preprocessed, training: given.append(preprocessed)
    detector.predict(images_of(np.full((1, 64, 64, 3), 127.0), [[40, 64]]), False)
    np.testing.assert_allclose(given[0], -1.0)  # the mean's value


def test_detections_lie_in_the_image_and_serving_gives_the_same(detector):
    images = images_of(noise(2, 64, 64, 3, seed=1), [[64, 64], [30, 64]])
    found, served = detector.detect(images), detector.serving_outputs(images)
    np.testing.assert_array_equal(served["detection_boxes"], found.boxes)
    np.testing.assert_array_equal(served["num_detections"], found.count)
    assert found.boxes.numpy().min() >= 0 and found.boxes.numpy().max() <= 1
    assert served["raw_detection_boxes"].shape == (2, len(detector.anchors), 4)
    assert served["raw_detection_scores"].shape == (2, len(detector.anchors), 3)
    with pytest.raises(ModelError, match="64x64, found 32x64"):
        detector.detect(images_of(np.zeros((1, 32, 64, 3))))


def test_a_moving_normaliser_is_kept_with_the_weights_and_crowds_count_where_they_are_given(detector):
    batch = Batch(images_of(np.zeros((2, 64, 64, 3), np.float32)), _truth("default", 128))
    crowd = batch._replace(truth=batch.truth._replace(is_crowd=tf.constant([[True, False], [False, False]])))
    found = [float(detector.losses(each, False)[TOTAL_LOSS]) for each in (batch, crowd)]
    assert found[0] == found[1]
    detector = goldens.small_detector(positives_momentum=0.9)
    detector.losses(batch, True)
    first = float(detector.positives)
    detector.losses(batch, True)
    assert first > 0 and float(detector.positives) == pytest.approx(first * 1.9, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["efficientdet-d0", "efficientdet-lite0"])
def test_detections_in_images_equal_the_reference(name):
    """From pixels through resizing, padding and normalisation to suppression."""
    message = goldens.message(name)
    message.image_resizer.automl_resizer.height = message.image_resizer.automl_resizer.width = 256
    detector = build_efficientdet(message, "model.efficientdet", None)
    goldens.set_deterministic_weights(detector.network, detector.parts.settings)
    pictures = np.random.RandomState(1).randint(0, 256, (2, 180, 260, 3)).astype(np.uint8)
    resizer = build_image_resizer(message.image_resizer)
    resized = [resizer(tf.constant(each), tf.zeros([0, 0, 0], tf.uint8)) for each in pictures]
    images = images_of(
        np.stack([each.image for each in resized]), [each.true_size.numpy().tolist() for each in resized]
    )
    golden = goldens.arrays(f"{name}.forward")
    predictions = detector.predict(images, training=False)
    heads, name = (predictions.box_codes, predictions.class_logits), "full256/{kind}/level_{level}"
    goldens.assert_levels(detector.parts.settings, (256, 256), heads, golden, name)
    scales = golden["full256/image_scales"][:, np.newaxis, np.newaxis]
    for mode in ("global", "per_class", "combined"):
        options = suppression_options(EfficientDet.NonMaxSuppression(mode=mode))
        found = detections_px(predictions, options, (256, 256))
        scores = golden[f"full256/{mode}/scores"].reshape(2, -1)
        # Scores are nearly equal, so that rounding decides which of two boxes lowers the other's.
        np.testing.assert_allclose(np.sort(found.scores)[:, ::-1], np.sort(scores)[:, ::-1], atol=1e-2)
        np.testing.assert_allclose(np.max(found.scores, axis=1), np.max(scores, axis=1), 1e-3)
        boxes, own = golden[f"full256/{mode}/boxes"].reshape(2, -1, 4), found.boxes * scales
        near = np.abs(own[:, np.newaxis] - boxes[:, :, np.newaxis]).max(axis=-1).min(axis=-1) < 0.5
        assert near.mean() >= 0.75, mode


def _one_object(is_crowd):
    fields = {
        "boxes": np.array([[[0.1, 0.1, 0.4, 0.4], [0.2, 0.2, 0.9, 0.9]]], np.float32),
        "classes": np.array([[0, 1]], np.int32), "weights": np.ones((1, 2), np.float32),
        "valid": np.array([[True, is_crowd is not None]]), "is_crowd": np.array([[False, bool(is_crowd)]]),
    }  # fmt: skip
    return new_truth(**{name: tf.constant(value) for name, value in fields.items()})


@cases(None, True, False)
def test_crowds_are_not_learnt_from_unless_the_config_says_so(*, skip):
    detector = goldens.small_detector(**({} if skip is None else {"skip_crowd_during_training": skip}))
    images = images_of(noise(1, 64, 64, 3))
    # Evaluation's pass of the network, so that normalisations say the same each time.
    outputs = detector._outputs(detector._prepared(images), False)
    detector._outputs = lambda pixels, training: outputs

    def loss(is_crowd, training):
        return float(detector.losses(Batch(images, _one_object(is_crowd)), training)[TOTAL_LOSS])

    alone, crowd, plain = (loss(is_crowd, True) for is_crowd in (None, True, False))
    assert plain != pytest.approx(alone)
    assert crowd == pytest.approx(plain if skip is False else alone)
    assert loss(True, False) == pytest.approx(plain)  # evaluation counts them, as theirs does
