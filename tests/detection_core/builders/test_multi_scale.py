"""The sizes that a detector is trained at, and its losses at each of them."""

import numpy as np
import pytest
import tensorflow as tf

from detection_core.builders.detector import build_detector, build_multi_scale_model, scaled_sizes
from detection_core.config.check import check_message
from detection_core.config.load import parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.detectors.base import TOTAL_LOSS
from detection_core.detectors.family import Family, register_family, unregister_family
from detection_core.training.multi_scale import resized
from tests.support.cases import cases, config_refused
from tests.support.precision_models import MODELS, batch_for
from tests.support.tiny_detector import TinyDetector


@cases(
    ((320, 320), (0.75, 1.0, 1.25), [(416, 416), (320, 320), (256, 256)]),
    ((300, 300), (0.75, 1.0, 1.25), [(384, 384), (300, 300), (224, 224)]),
    ((192, 256), (0.5, 1.0), [(192, 256), (96, 128)]),
    ((64, 64), (0.9, 1.0, 1.1), [(64, 64)]),
    ((64, 64), (0.25,), [(32, 32)]),
)
def test_sizes_are_multiples_of_32_and_each_is_there_once_the_largest_first(*, own, scales, sizes):
    assert scaled_sizes(own, scales) == sizes


def _config(name, block):
    return apply_overrides(parse_pipeline_config(MODELS[name]), {"train_config.multi_scale": block})


# The others are as slow to build as there are rows, and differ in what `test_precision` is about.
SMALL = "plain"
NAMES = [SMALL, *(pytest.param(name, marks=pytest.mark.zoo) for name in MODELS if name != SMALL)]


@pytest.mark.parametrize("name", NAMES)
def test_another_size_is_the_same_detector_built_for_it(name):
    config = _config(name, {"scale": [1.0, 2.0], "steps_per_scale": 1})
    detector = build_detector(config.model)
    side = detector.input_shape.size[0]
    scales = build_multi_scale_model(config, detector)
    assert scales.largest != detector.losses
    (other,) = {scales.losses(step) for step in range(20)} - {detector.losses}
    resizer = "automl_resizer" if "efficientdet {" in MODELS[name] else "fixed_shape_resizer"
    place = f"model.{config.model.WhichOneof('model')}.image_resizer.{resizer}"
    at_size = {f"{place}.height": 2 * side, f"{place}.width": 2 * side}
    alone = build_detector(apply_overrides(config, at_size).model)
    for ours, theirs in zip(detector.variables, alone.variables, strict=True):
        assert ours.name == theirs.name
        seed = [ours.shape.num_elements(), ours.shape.rank]
        ours.assign(theirs.assign(tf.random.stateless_uniform(ours.shape, seed, 0.05, 0.4)))
    batch = batch_for(detector)
    with tf.GradientTape() as tape:
        found = other(batch, False)
    wanted = alone.losses(resized(batch, (2 * side, 2 * side)), training=False)
    ours, theirs = ({key: float(value) for key, value in losses.items()} for losses in (found, wanted))
    assert ours == pytest.approx(theirs, rel=1e-4)
    gradients = tape.gradient(found[TOTAL_LOSS], detector.trainable_variables)
    assert all(gradient is not None for gradient in gradients)
    before = [v.numpy() for v in detector.variables if "moving_mean" in v.name]
    other(batch, True)
    after = [v.numpy() for v in detector.variables if "moving_mean" in v.name]
    assert any(not np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_a_detector_without_the_block_has_no_scales_and_one_of_several_sizes_is_refused():
    class Several:
        input_shape = type("Shape", (), {"size": None})

    assert build_multi_scale_model(parse_pipeline_config(MODELS[SMALL]), Several()) is None
    message = r"train_config\.multi_scale: .*takes several already; remove it"
    config_refused(message, build_multi_scale_model, _config(SMALL, {}), Several())


def test_a_family_that_cannot_give_a_network_to_another_detector_is_named():
    family = Family(name="tiny", build=lambda *_: TinyDetector(), describe=lambda *_: None, loss_names={})
    register_family(family)
    try:
        config = _config(SMALL, {"scale": [2.0]})
        config.model.Clear()
        config.model.experimental_model.name, config.model.experimental_model.num_classes = "tiny", 3
        config.model.experimental_model.image_resizer.fixed_shape_resizer.height = 32
        message = r"multi_scale\.scale: .*found 64 x 64, .*of one network, ssd .*, found tiny; train"
        config_refused(message, build_multi_scale_model, config, TinyDetector())
    finally:
        unregister_family("tiny")


@cases(
    ({"scale": [8.0]}, r"multi_scale\.scale"),
    ({"scale": [1.0] * 10}, r"multi_scale\.scale: .*at most 9 scales, found 10"),
    ({"steps_per_scale": 0}, r"multi_scale\.steps_per_scale"),
)
def test_wrong_values_are_named(*, block, field):
    config_refused(field, check_message, _config(SMALL, block).train_config, "train_config")
