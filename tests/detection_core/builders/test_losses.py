import functools

import numpy as np
import pytest
import tensorflow as tf

from detection_core.builders import losses as builders
from detection_core.detectors.parts.losses import masking
from detection_core.protos import losses_pb2
from tests.support.cases import cases, config_refused
from tests.support.configs import parsed
from tests.support.golden_cases import cases_of

CASES = cases_of("detection_core/detectors/parts/losses", "losses")
CALLED = [case for case in CASES.values() if "prediction" in case.inputs and case.config]
MINED = [case for case in CASES.values() if "location_losses" in case.inputs]
TOLERANCE = {"rtol": 1e-4, "atol": 1e-6}
PAIR = "classification_loss { weighted_sigmoid {} } localization_loss { weighted_smooth_l1 {} } "
_message = functools.partial(parsed, losses_pb2.Loss)


def _loss(case):
    message = _message(case.config)
    if message.HasField("classification_loss"):
        return builders.build_classification_loss(message.classification_loss)
    loss = builders.build_localization_loss(message.localization_loss)
    # The golden of L1 was taken before the sum over the code, with a weight for each of its numbers.
    return loss.elementwise if case.name == "l1" else loss


def _arguments(case):
    """Prediction, target and weights with the options of the reference's call applied."""
    prediction, target, weights = (tf.constant(case.inputs[k]) for k in ("prediction", "target", "weights"))
    if "class_indices" in case.params:
        weights *= tf.reduce_sum(tf.one_hot(list(case.params["class_indices"]), target.shape[-1]), axis=0)
    if "losses_mask" in case.params:
        kept = np.reshape(case.params["losses_mask"], [-1] + [1] * (weights.shape.rank - 1))
        weights = tf.where(kept, weights, 0.0)
    return prediction, target, weights


@cases(*CALLED)
def test_golden_loss_and_gradient(*, case):
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
    for kind in ("classification_loss", "localization_loss"):
        arms = {getattr(message, kind).WhichOneof(kind) for message in messages} - {None}
        assert arms | {"registered"} == set(getattr(builders, f"{kind.upper()}ES"))


@cases(*MINED)
def test_golden_miner(*, case):
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
    assert losses.hard_example_miner is losses.random_example_sampler is None
    sampled = builders.build_losses(_message(PAIR + "random_example_sampler {}"))
    assert sampled.random_example_sampler.positive_fraction == pytest.approx(0.01)

    text = PAIR.replace("sigmoid {", "softmax { logit_scale: 0")
    caught = config_refused("", builders.build_losses, _message(text))
    assert caught.where == "loss.classification_loss.weighted_softmax.logit_scale"
