"""The segmentation head: its logits, its loss and its output."""

import numpy as np
import pytest
import tensorflow as tf

from detection_core.builders.detector import configured_model
from detection_core.detectors.base import TOTAL_LOSS
from detection_core.errors import ConfigError
from detection_core.exporters.signatures import write_saved_model
from detection_core.families.efficientdet.checkpoint_names import automl_variables
from detection_core.families.efficientdet.losses import SEGMENTATION_LOSS
from detection_core.families.efficientdet.network import build_network, pixel_classes, segmentation_loss
from detection_core.ops.objects import new_truth
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.structures import Batch
from tests.support import efficientdet_goldens as goldens
from tests.support.batches import images_of
from tests.support.cases import refused

BOTH = ["object_detection", "segmentation"]
SMALL = {"heads": BOTH, "max_level": 6, "num_classes": 2}
CASES = goldens.cases("layers")


@pytest.mark.slow
@pytest.mark.parametrize("case", ["segmentation_d0_both", "segmentation_d0_seg5_relu6"])
def test_logits_and_variables_equal_the_reference(case):
    params, fact = CASES[case]["params"], CASES[case]["fact"]
    fields = {key: params[key] for key in ("act_type", "seg_num_classes") if key in params}
    settings = goldens.settings("efficientdet-d0", 128, heads=BOTH, **fields)
    network = build_network(settings, (128, 128), None)
    goldens.set_deterministic_weights(network, settings)
    pixels = np.random.RandomState(0).standard_normal((1, 128, 128, 3)).astype(np.float32)
    codes, logits, segmentation = network(pixels, training=False)
    wanted = goldens.wanted("layers", case)
    np.testing.assert_allclose(goldens.sampled(segmentation), wanted["segmentation"], 1e-3, 1e-3)
    variables = {own.key: own for own in automl_variables(network, settings)}
    for key, shape, name in fact["seg_variables"]:
        own = variables[key.partition("/.ATTRIBUTES")[0]]
        assert (own.name, list(own.variable.shape)) == (name, shape)
    if "cls_7" in wanted:
        assert network.count_params() == fact["num_parameters"]
        np.testing.assert_allclose(
            logits[0, -9:].numpy().reshape(-1), wanted["cls_7"].reshape(-1), 1e-3, 1e-3
        )
        np.testing.assert_allclose(codes[0, -9:].numpy().reshape(-1), wanted["box_7"].reshape(-1), 1e-3, 1e-3)


def _truth(side=128):
    masks = np.zeros((2, 2, side, side), np.uint8)
    masks[0, 0, : side // 2], masks[0, 1, :, : side // 4], masks[1, 1] = 1, 1, 1
    return new_truth(
        boxes=tf.constant([[[0.0, 0.0, 0.5, 1.0], [0.0, 0.0, 1.0, 0.25]]] * 2),
        classes=tf.constant([[0, 1], [0, 1]]),
        weights=tf.ones([2, 2]),
        valid=tf.constant([[True, True], [True, False]]),
        masks=tf.constant(masks),
    )


def test_a_pixel_has_the_class_of_its_object_and_the_loss_is_the_mean_over_pixels():
    settings = goldens.settings("efficientdet-d0", 128, heads=BOTH, num_classes=2)
    classes = pixel_classes(settings, _truth(), (32, 32)).numpy()
    assert np.all(classes[0, :16, 8:] == 1) and np.all(classes[0, :, :8] == 2)
    assert np.all(classes[0, 16:, 8:] == 0) and not classes[1].any()
    logits = tf.constant([[[[0.0, 0.0], [100.0, 0.0]]]])
    np.testing.assert_allclose(segmentation_loss(logits, tf.constant([[[0, 0]]])), np.log(2) / 2)


def test_training_needs_masks_and_a_class_for_each_of_the_objects():
    settings = goldens.settings("efficientdet-d0", 128, heads=BOTH)
    unmasked = _truth()._replace(masks=tf.zeros([2, 2, 0, 0], tf.uint8))
    refused(ConfigError, "load_instance_masks: true", pixel_classes, settings, unmasked, (32, 32))
    refused(ConfigError, "seg_num_classes: 91", pixel_classes, settings, _truth(), (32, 32))


@pytest.mark.slow
def test_the_map_of_classes_is_an_output_of_the_saved_model(tmp_path):
    config = TrainEvalPipelineConfig()
    config.model.efficientdet.CopyFrom(goldens.small_message(**SMALL))
    configured = configured_model(config)
    detector = configured.build(seed=0)
    write_saved_model(detector, configured.build_resizer(), str(tmp_path))
    pixels = np.random.default_rng(0).integers(0, 256, (2, 64, 64, 3)).astype(np.uint8)
    served = tf.saved_model.load(str(tmp_path)).signatures["serving_default"](tf.constant(pixels))
    expected = detector.serving_outputs(images_of(pixels))["segmentation_logits"]
    assert np.ptp(expected.numpy()) > 0
    np.testing.assert_allclose(served["segmentation_logits"], expected, atol=1e-4)


def test_a_detector_with_both_heads_trains_and_serves_both():
    detector, images = goldens.small_detector(**SMALL), images_of(np.zeros((2, 64, 64, 3)))
    losses = detector.losses(Batch(images, _truth(64)), True)
    assert float(losses[SEGMENTATION_LOSS]) > 0 and np.isfinite(losses[TOTAL_LOSS])
    assert detector.serving_outputs(images)["segmentation_logits"].shape == (2, 16, 16, 3)
