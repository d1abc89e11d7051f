"""Two updates of efficientdet-d0, from hyper-parameters to weights, against the goldens."""

import numpy as np
import pytest
import tensorflow as tf

from detection_core.builders.detector import build_detector
from detection_core.builders.train_plan import build_optimization, build_train_options
from detection_core.config.automl.translation import RunFlags, translate
from detection_core.detectors.base import REGULARIZATION_LOSS, TOTAL_LOSS
from detection_core.families.efficientdet import model
from detection_core.families.efficientdet.checkpoint_names import automl_variables
from detection_core.families.efficientdet.losses import SEGMENTATION_LOSS
from detection_core.ops.objects import new_truth
from detection_core.structures import Batch, Images
from detection_core.training.step import TrainState, train_step
from tests.support import efficientdet_goldens as goldens

CASES = goldens.cases("training_step")
LOSSES = {"loss": TOTAL_LOSS, "reg_l2_loss": REGULARIZATION_LOSS, "seg_loss": SEGMENTATION_LOSS}
SIDE = 128
# One weight of hundreds of thousands, where its gradient is next to nothing, may move by a rounding more.
TOLERANCES = {1: 1e-3, 2: 1e-2}


def _batch(case):
    given = goldens.given("training_step", case)
    boxes, classes = np.zeros((2, 2, 4), np.float32), np.zeros((2, 2), np.int32)
    valid = np.zeros((2, 2), bool)
    for index in range(2):
        count = len(given[f"boxes_{index}"])
        boxes[index, :count] = given[f"boxes_{index}"] / SIDE
        classes[index, :count] = given[f"classes_{index}"].reshape(-1) - 1
        valid[index, :count] = True
    weights = tf.constant(valid, tf.float32)
    truth = new_truth(tf.constant(boxes), tf.constant(classes), valid=tf.constant(valid), weights=weights)
    pixels = np.random.RandomState(0).standard_normal((2, SIDE, SIDE, 3)).astype(np.float32)
    sizes = tf.constant([[SIDE, SIDE]] * 2)
    return Batch(Images(tf.constant(pixels), sizes, sizes, tf.constant(["", ""])), truth)


@pytest.mark.slow
# The first has the default losses on some of the variables, the others other losses on all.
@pytest.mark.parametrize("case", ["freeze_backbone", "ciou_smoothing", "both_heads"])
def test_golden_updates(case, monkeypatch):
    if case == "both_heads":
        # The golden's map of classes is drawn at random: no objects have it, as the map is here made of them.
        drawn = goldens.given("training_step", case)["image_masks"]
        monkeypatch.setattr(model, "pixel_classes", lambda settings, truth, size: tf.constant(drawn))
    hparams = {name: v for name, v in CASES[case]["params"].items() if name != "inputs"}
    given = hparams | {"image_size": SIDE, "num_classes": 4, "mean_rgb": 0.0, "stddev_rgb": 1.0}
    config = translate("efficientdet-d0", given, RunFlags(batch_size=2, num_examples_per_epoch=20)).config
    detector = build_detector(config.model, seed=None)
    goldens.set_deterministic_weights(detector.network, detector.parts.settings)
    variables = automl_variables(detector.network, detector.parts.settings)
    named = {found.key: found.variable for found in variables}
    options = build_train_options(config.train_config)
    state = TrainState(detector, build_optimization(config), options, None)
    facts, wanted, batch = CASES[case]["fact"], goldens.wanted("training_step", case), _batch(case)
    assert state.average is not None
    averages = {v.ref(): a for v, a in zip(state.average.averaged, state.average.averages, strict=True)}
    for number, tolerance in TOLERANCES.items():
        # Not traced, which takes longer than both updates.
        outputs, expected = train_step(state, options, 1, batch), facts[f"step_{number}"]
        assert float(outputs.learning_rate) == pytest.approx(expected["learning_rate"], rel=1e-5)
        for key in {"loss", "reg_l2_loss"} | (LOSSES.keys() & expected.keys()):
            assert float(outputs.losses[LOSSES[key]]) == pytest.approx(expected[key], rel=tolerance), key
        for key, values in wanted.items():
            kind, _, variable = key.partition("/")
            if kind not in (f"step{number}", f"step{number}_average"):
                continue
            kept = named[variable] if kind == f"step{number}" else averages[named[variable].ref()]
            bounds = {"rtol": tolerance, "atol": tolerance * 0.1, "err_msg": key}
            np.testing.assert_allclose(goldens.sampled(kept.numpy()), values, **bounds)
    if "trained_variables" in facts:
        assert len(state.variables) == facts["trained_variables"]
