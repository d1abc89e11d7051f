"""Losses and choices of examples of a config."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from detection_core.builders import losses as builders
from detection_core.detectors.parts.losses import masking
from detection_core.errors import ConfigError
from detection_core.protos import losses_pb2
from tests.support.cases import cases, refused
from tests.support.configs import parsed
from tests.support.golden_cases import GoldenCase, cases_of

CASES = cases_of("detection_core/detectors/parts/losses", "losses")
CALLED = [case for case in CASES.values() if "prediction" in case.inputs and case.config]
MINED = [case for case in CASES.values() if "location_losses" in case.inputs]
TOLERANCE = {"rtol": 1e-4, "atol": 1e-6}
_message = functools.partial(parsed, losses_pb2.Loss)


def _loss(case: GoldenCase):
    message = _message(case.config)
    if message.HasField("classification_loss"):
        return builders.build_classification_loss(message.classification_loss)
    loss = builders.build_localization_loss(message.localization_loss)
    # The golden of L1 was taken before the sum over the code, with a weight for each of its numbers.
    return loss.elementwise if case.name == "l1" else loss


def _arguments(case: GoldenCase):
    """Prediction, target and weights with the options of the reference's call applied."""
    prediction, target, weights = (tf.constant(case.inputs[k]) for k in ("prediction", "target", "weights"))
    if "class_indices" in case.params:
        weights = _only_classes(weights, case.params["class_indices"], target.shape[-1])
    if "losses_mask" in case.params:
        weights = _only_images(weights, tf.constant(case.params["losses_mask"]))
    return prediction, target, weights


@cases(*CALLED)
def test_golden_loss_and_gradient(*, case: GoldenCase):
    loss, (prediction, target, weights) = _loss(case), _arguments(case)
    with tf.GradientTape() as tape:
        tape.watch(prediction)
        if case.params.get("ignore_nan_targets"):
            target = masking.replace_nan_targets(prediction, target)
        value = loss(prediction, target, weights)
    expected = case.outputs["loss"].reshape(value.shape)
    np.testing.assert_allclose(value, expected, **TOLERANCE)
    np.testing.assert_allclose(tape.gradient(value, prediction), case.outputs["grad"], **TOLERANCE)


def test_every_arm_has_a_golden():
    messages = [_message(case.config) for case in CALLED]
    arms = {m.classification_loss.WhichOneof("classification_loss") for m in messages} - {None}
    assert arms | {"registered"} == set(builders.CLASSIFICATION_LOSSES)
    arms = {m.localization_loss.WhichOneof("localization_loss") for m in messages} - {None}
    assert arms | {"registered"} == set(builders.LOCALIZATION_LOSSES)


@cases(*MINED)
def test_golden_miner(*, case: GoldenCase):
    miner = builders.build_hard_example_miner(_message(case.config))
    inputs = case.inputs
    matched = inputs.get("match_results", np.zeros(inputs["cls_losses"].shape, np.int32))
    found = miner.mine(inputs["location_losses"], inputs["cls_losses"], inputs["decoded_boxes"], matched)
    np.testing.assert_allclose(found.localization, case.outputs["mined_location_loss"], **TOLERANCE)
    np.testing.assert_allclose(found.classification, case.outputs["mined_cls_loss"], **TOLERANCE)


def test_losses_of_a_detector_and_defaults_of_the_miner():
    facts = CASES["hard_example_miner_defaults"].facts["value"]
    miner = builders.build_hard_example_miner(_message("hard_example_miner {}")).options
    assert miner.num_hard_examples == facts["num_hard_examples"]
    assert miner.iou_threshold == pytest.approx(facts["iou_threshold"])
    assert miner.loss is builders.MINING_LOSSES[facts["loss_type"]]
    assert miner.max_negatives_per_positive == facts["max_negatives_per_positive"]
    losses = builders.build_losses(_message(PAIR + "classification_weight: 2 localization_weight: 0.5"))
    assert (losses.classification_weight, losses.localization_weight) == (2.0, 0.5)
    assert losses.hard_example_miner is None
    assert losses.random_example_sampler is None
    sampled = builders.build_losses(_message(PAIR + "random_example_sampler {}"))
    assert sampled.random_example_sampler.positive_fraction == pytest.approx(0.01)


PAIR = "classification_loss { weighted_sigmoid {} } localization_loss { weighted_smooth_l1 {} } "


@cases(
    ("localization_loss { weighted_l2 {} }", "classification_loss"),
    (PAIR + "hard_example_miner {} random_example_sampler {}", "random_example_sampler"),
    (PAIR + "expected_loss_weights: EXPECTED_SAMPLING", "expected_loss_weights"),
    (
        PAIR.replace("sigmoid {", "softmax { logit_scale: 0"),
        "classification_loss.weighted_softmax.logit_scale",
    ),
    (PAIR.replace("l1 {", "l1 { delta: 0"), "localization_loss.weighted_smooth_l1.delta"),
)
def test_refusals_name_the_place(*, text, place):
    caught = refused(ConfigError, "", builders.build_losses, _message(text))
    assert caught.where == f"loss.{place}"


def _only_classes(weights, classes, columns):
    """Weights [B, A, 1] or [B, A, K] of some columns, 0 for others: the reference's `class_indices`."""
    return weights * tf.reduce_sum(tf.one_hot(list(classes), columns), axis=0)


def _only_images(weights, kept):
    """Weights [B, ...] of the images that are kept, bool [B], as the reference's `losses_mask`."""
    ones = tf.ones([tf.rank(weights) - 1], tf.int32)
    return tf.where(tf.reshape(kept, tf.concat([tf.shape(kept), ones], axis=0)), weights, 0.0)
