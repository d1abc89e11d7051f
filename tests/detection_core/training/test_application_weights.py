"""A backbone filled from a classifier of Keras gives the classifier's own features."""

import dataclasses
import functools
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from detection_core.builders.backbones import BACKBONES, BackboneShape
from detection_core.errors import ModelError
from detection_core.parts.layers.keras_layers import PREPROCESSORS
from detection_core.parts.layers.layer_hyperparams import BatchNormOptions
from detection_core.parts.layers.network_layers import NetworkLayers
from detection_core.training.application_weights import fill_backbone, load_application
from detection_core.zoo.keras_backbones import find_backbone
from tests.support.cases import cases, refused

pytestmark = pytest.mark.slow

# Backbone, multiplier, the classifier's layer and the backbone's level with the same features, input. ResNets
# pool alike where the stem gives an odd number of rows.
ALIKE = [
    ("mobilenet_v1", 0.5, {"conv_pw_5_relu": 3, "conv_pw_13_relu": 5}, 64),
    ("mobilenet_v2", 1.0, {"block_12_add": 4, "out_relu": 5}, 64),
    ("mobilenet_v2", 0.35, {"block_12_add": 4}, 96),
    ("mobilenet_v3_small", 1.0, {"expanded_conv_7/Add": 4}, 64),
]
DEEP = [
    ("resnet50_v1", 1.0, {"conv2_block3_out": 2, "conv5_block3_out": 5}, 65),
    ("efficientnet_b0", 1.0, {"block2b_add": 2, "block7a_project_bn": 5}, 64),
]
EPSILON = 0.01


def _filled(network, classifier, name, source="x"):
    """Fill as much of a detector as is looked at."""
    return fill_backbone(SimpleNamespace(networks={"network": network}), classifier, name, source=source)


def _backbone(name, multiplier, *, scale=True, narrow_top=False):
    entry = BACKBONES[name]
    norm = BatchNormOptions(momentum=0.9, epsilon=EPSILON, center=True, scale=scale)
    hyperparams = dataclasses.replace(entry.hyperparams, batch_norm=norm)
    pixels = tf_keras.Input((None, None, 3))
    inputs = tf_keras.layers.Lambda(PREPROCESSORS[entry.preprocessing])(pixels)
    shape = BackboneShape(depth_multiplier=multiplier, min_depth=8, narrow_top=narrow_top)
    endpoints = entry.build(inputs, NetworkLayers(hyperparams=hyperparams), shape)
    return tf_keras.Model(pixels, dict(endpoints.levels))


@functools.cache
def _classifier(published):
    """With random weights and statistics, and the normalisation that Keras' EfficientNets bring along."""
    options = {"alpha": published.depth_multiplier} if "MobileNet" in published.application else {}
    build = getattr(tf_keras.applications, published.application)
    model = build(include_top=False, weights=None, input_shape=(None, None, 3), **options)
    rng = np.random.default_rng(3)
    for variable in model.weights:
        if "kernel" in variable.name:
            continue
        low, high = (0.5, 1.5) if "gamma" in variable.name or "variance" in variable.name else (-0.2, 0.2)
        if "count" not in variable.name:
            variable.assign(rng.uniform(low, high, variable.shape))
    return model


def _as_classifier_takes(published, pixels):
    if published.application == "MobileNet":
        return tf_keras.applications.mobilenet.preprocess_input(pixels.copy())
    if published.application.startswith("MobileNetV3"):
        return pixels  # it brings its normalisation along
    if published.application == "MobileNetV2":
        return tf_keras.applications.mobilenet_v2.preprocess_input(pixels.copy())
    return tf_keras.applications.resnet.preprocess_input(pixels.copy())


def _features(model, published, pixels, layers):
    outputs = [model.get_layer(name).output for name in layers]
    if not published.application.startswith("EfficientNet"):
        return tf_keras.Model(model.input, outputs)(_as_classifier_takes(published, pixels))
    # With published weights the scaled pixels, less the mean, are divided by the deviation in all.
    body = tf_keras.Model(model.get_layer("stem_conv_pad").input, outputs)
    return body(PREPROCESSORS["standardize"](tf.constant(pixels)))


def expect_features(*, name, multiplier, layers, side):
    published, network = find_backbone(name, multiplier), _backbone(name, multiplier)
    classifier = _classifier(published)
    before = [v.numpy().copy() for v in network.weights]
    report = _filled(network, classifier, name, published.name)
    # Keras' narrow MobileNetV2 ends in 1280 channels, the Object Detection API's in fewer; a MobileNetV3 in a
    # detector has half the channels behind the last stride.
    skipped = {("mobilenet_v2", 0.35): 5, ("mobilenet_v3_small", 1.0): 48}.get((name, multiplier), 0)
    restored = {"restored": len(network.weights) - skipped, "skipped_shape": skipped}
    assert report.counts() == restored | {"missing": 0, "unused": 0}
    assert any(not np.array_equal(a, v.numpy()) for a, v in zip(before, network.weights, strict=True))
    pixels = np.random.default_rng(4).uniform(0, 255, (2, side, side, 3)).astype(np.float32)
    expected = _features(classifier, published, pixels, layers)
    found = network(pixels)
    for level, features in zip(layers.values(), expected if len(layers) > 1 else [expected], strict=True):
        scale = float(np.abs(features).max())
        assert scale > 1e-3
        np.testing.assert_allclose(found[level], features, rtol=1e-3, atol=1e-4 * scale)


test_features_are_the_classifier_s = cases(*ALIKE)(expect_features)
test_features_of_deep_networks_are_the_classifier_s = cases(*DEEP)(expect_features)
DEEPEST = ("efficientnet_b4", "efficientnet_b7", "resnet101_v1", "resnet152_v1")


@pytest.mark.parametrize(
    "name", ["efficientnet_b1", *(pytest.param(name, marks=pytest.mark.zoo) for name in DEEPEST)]
)
def test_every_layer_of_a_deep_network_has_its_counterpart(name):
    network, published = _backbone(name, 1.0), find_backbone(name)
    build = getattr(tf_keras.applications, published.application)
    report = _filled(network, build(include_top=False, weights=None), name)
    assert report.counts()["restored"] == len(network.weights)


def test_layers_that_are_narrower_here_keep_their_values():
    network = _backbone("mobilenet_v1", 0.5, narrow_top=True)
    classifier = _classifier(find_backbone("mobilenet_v1", 0.5))
    report = _filled(network, classifier, "mobilenet_v1")
    skipped = {row.name.partition("/")[0] for row in report.variables if row.found_shape != row.shape}
    narrow = ("12_pointwise", "13_depthwise", "13_pointwise")
    assert skipped == {f"backbone_separable_{name}{norm}" for name in narrow for norm in ("", "_bn")}


def test_what_does_not_fit_is_refused_and_nothing_is_changed():
    network, published = _backbone("mobilenet_v2", 0.35, scale=False), find_backbone("mobilenet_v2", 0.35)
    before = [v.numpy() for v in network.weights]
    with pytest.raises(ModelError, match=r"without gamma; set batch_norm \{ scale: true"):
        _filled(network, _classifier(published), "mobilenet_v2")
    for old, variable in zip(before, network.weights, strict=True):
        np.testing.assert_array_equal(old, variable.numpy())
    network = _backbone("mobilenet_v2", 0.35)
    other = _classifier(find_backbone("mobilenet_v1", 0.5))
    refused(ModelError, "none called Conv1", _filled, network, other, "mobilenet_v2")
    refused(ModelError, "Keras publishes, found vgg", _filled, network, other, "vgg")


def test_files_of_weights_are_read_and_others_refused(tmp_path):
    published = find_backbone("mobilenet_v2", 0.35)
    classifier, path = _classifier(published), str(tmp_path / "w_no_top.h5")
    classifier.save_weights(path)
    read = load_application("MobileNetV2", path, depth_multiplier=0.35)
    for a, b in zip(classifier.weights, read.weights, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    with pytest.raises(ModelError, match=r"expected the weights of MobileNetV2 .*remove it"):
        load_application("MobileNetV2", path)
    (tmp_path / "x.h5").write_bytes(b"<html>")
    refused(ModelError, "expected the weights", load_application, "MobileNetV2", str(tmp_path / "x.h5"))
