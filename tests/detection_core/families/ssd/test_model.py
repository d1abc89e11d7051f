"""A whole detector against the reference, what holds of it beyond, and maps of its network."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from google.protobuf import text_format

from detection_core.builders.backbones import BACKBONES
from detection_core.detectors.base import REGULARIZATION_LOSS, TOTAL_LOSS
from detection_core.errors import ModelError
from detection_core.families.ssd.extractors import COMBINE_METHODS, EXTRACTORS, NAMED_EXTRACTORS
from detection_core.families.ssd.model import CLASSIFICATION_LOSS, LOCALIZATION_LOSS, SsdModel
from detection_core.families.ssd.network import NECKS, build_feature_maps
from detection_core.parts import necks
from detection_core.parts.layers.keras_layers import PREPROCESSORS
from detection_core.parts.layers.layer_hyperparams import LayerHyperparams
from detection_core.parts.layers.network_layers import NetworkLayers
from detection_core.protos import ssd_pb2
from tests.support import golden_networks
from tests.support.batches import images_of
from tests.support.cases import cases
from tests.support.configs import checked


@functools.cache
def _golden(name):
    """A configuration and its detector, which all tests share and none may change."""
    return golden_networks.load_golden(name), golden_networks.build_golden(name)


@pytest.mark.parametrize(
    "name",
    [
        n if n in golden_networks.MOBILE else pytest.param(n, marks=pytest.mark.slow)
        for n in golden_networks.WITH_FORWARD
    ],
)
def test_parameters_outputs_detections_and_losses_are_those_of_the_reference(name):
    golden, model = _golden(name)
    facts = golden.facts
    for kind in ("trainable", "non_trainable"):
        variables = getattr(model.network, f"{kind}_variables")
        assert sum(int(np.prod(v.shape)) for v in variables) == facts["parameters"][kind]
    pixels, wanted = (
        [facts["preprocess"][f"{which}_pixel_{end}"] for which in ("first", "last")] for end in ("in", "out")
    )
    np.testing.assert_allclose(SsdModel.preprocess(model, tf.constant(pixels)), wanted, rtol=1e-6, atol=1e-6)
    predictions = model.predict(golden.images, training=False)
    golden_networks.assert_outputs(golden, golden.arrays, model, predictions)
    golden_networks.assert_same_detections(
        golden.arrays, model.suppress(predictions, golden.images.true_sizes)[0]
    )
    predictions = golden_networks.train_predict(model, golden.images)
    codes = golden.arrays["train_predict/box_encodings"]
    np.testing.assert_allclose(golden_networks.sample(predictions.box_codes), codes, rtol=1e-2, atol=1e-2)
    losses = model.compare(predictions, golden.truth)
    for loss in (LOCALIZATION_LOSS, CLASSIFICATION_LOSS):
        np.testing.assert_allclose(losses[loss], facts["losses"][loss], rtol=1e-2)
    np.testing.assert_allclose(losses[REGULARIZATION_LOSS], facts["regularization_loss"], rtol=1e-5)
    parts = [losses[loss] for loss in (LOCALIZATION_LOSS, CLASSIFICATION_LOSS, REGULARIZATION_LOSS)]
    np.testing.assert_allclose(losses[TOTAL_LOSS], sum(parts), rtol=1e-6)


def test_a_rewritten_network_keeps_the_detector_and_its_regularizers():
    golden, model = _golden(golden_networks.MOBILE[1])
    other = golden_networks.build_golden(golden_networks.MOBILE[1]).network
    for variable in other.trainable_variables:
        variable.assign(2.0 * variable)
    rewritten = model.with_network(other)
    assert rewritten.network is other and isinstance(rewritten, type(model))
    predictions = rewritten.predict(golden.images, training=False)
    regularizer = rewritten.compare(predictions, golden.truth)[REGULARIZATION_LOSS]
    np.testing.assert_allclose(regularizer, 4.0 * golden.facts["regularization_loss"], rtol=1e-5)


def test_detections_are_relative_to_the_true_image_and_other_sizes_are_refused():
    golden, model = _golden(golden_networks.MOBILE[1])
    predictions = model.predict(golden.images, training=False)
    half = model.suppress(predictions, tf.constant([[160, 320], [160, 320]]))[0]
    raw, window = model.raw_detections(predictions), [0.5, 1.0, 0.5, 1.0]
    assert float(tf.reduce_max(half.boxes)) <= 1.0
    inside = tf.cast(raw.boxes[0, :, 0] < 0.5, tf.float32)
    best = tf.argmax(tf.reduce_max(raw.scores[0, :, 1:], axis=-1) * inside)
    clipped = tf.clip_by_value(raw.boxes[0, best], 0.0, window) / window
    np.testing.assert_allclose(half.boxes[0, 0], clipped, atol=1e-5)
    with pytest.raises(ModelError, match="expected images of 320x320, found 200x320"):
        model.predict(images_of(np.zeros((1, 200, 320, 3))), training=False)


def _message(text: str) -> ssd_pb2.SsdFeatureExtractor:
    return checked(text_format.Parse(text, ssd_pb2.SsdFeatureExtractor()), "e")


def _network(text: str, size: tuple[int, int] = (64, 96)) -> tuple[tf_keras.Model, NetworkLayers]:
    layers = NetworkLayers(hyperparams=LayerHyperparams(), seed=None)
    inputs = tf_keras.Input((*size, 3))
    return tf_keras.Model(inputs, build_feature_maps(_message(text), inputs, layers, "e")), layers


def _shapes(network: tf_keras.Model) -> list[tuple[int, ...]]:
    return [tuple(features.shape[1:]) for features in network.outputs]


def test_every_extractor_of_the_check_is_built_with_its_neck_and_a_preprocessor():
    ours = {name: entry for name, entry in EXTRACTORS.items() if entry.backbone != "tests_plain"}
    assert {extractor.backbone for extractor in ours.values()} == {b for b in BACKBONES if b != "tests_plain"}
    assert COMBINE_METHODS == necks.COMBINE_METHODS
    for name, extractor in ours.items():
        assert name.endswith("_keras") or name in NAMED_EXTRACTORS
        assert extractor.neck in NECKS
        assert BACKBONES[extractor.backbone].preprocessing in PREPROCESSORS


BIFPN = "type: 'ssd_efficientnet-b0_bifpn_keras'"
SMALL = "min_level: 1 max_level: 2 num_iterations: 1 num_filters: 16"
V1, V2 = "type: 'ssd_mobilenet_v1", "type: 'ssd_mobilenet_v2"
SIX = [(19, 19, 256), (10, 10, 512), (5, 5, 256), (3, 3, 128), (2, 2, 128), (1, 1, 64)]


@cases(
    (
        f"{V2}_fpn_keras' depth_multiplier: 0.5 min_depth: 16 use_depthwise: true"
        " fpn { min_level: 2 max_level: 6 additional_layer_depth: 48 }",
        (64, 96),
        [(16, 24, 24), (8, 12, 24), (4, 6, 24), (2, 3, 24), (1, 2, 24)],
    ),
    (
        f"{BIFPN} min_depth: 24 bifpn {{ min_level: 2 max_level: 4 num_iterations: 1 num_filters: 8 }}",
        (64, 96),
        [(16, 24, 24), (8, 12, 24), (4, 6, 24)],
    ),
    (
        f"{V2}_keras' num_layers: 3 depth_multiplier: 0.25 min_depth: 24",
        (64, 96),
        [(4, 6, 144), (2, 3, 320), (1, 2, 128)],
    ),
    *(
        (f"{V1}_keras' depth_multiplier: 0.5 min_depth: 16 {padding}", (300, 300), SIX)
        for padding in ("", "use_explicit_padding: true", "use_depthwise: true num_layers: 6")
    ),
)
def test_maps_follow_the_message(*, text, size, shapes):
    assert _shapes(_network(text, size)[0]) == shapes


OVERRIDE = "override_base_feature_extractor_hyperparams: true"


def test_the_backbone_has_its_own_hyperparameters_unless_they_are_overridden():
    for override, weight in (("", 0.00004), (OVERRIDE, 7.0)):
        _, layers = _network(
            f"{V2}_keras' depth_multiplier: 0.25 num_layers: 3 {override}"
            " conv_hyperparams { regularizer { l1_regularizer { weight: 7 } } batch_norm {} }"
        )
        weights = {(key.split("_")[0], each.weight) for key, each in layers.regularizers.items()}
        assert weights == {("extra", 7.0), ("backbone", weight)}


def test_an_efficientnet_takes_only_the_regularizer_of_overriding_hyperparameters():
    network, layers = _network(
        f"{BIFPN} bifpn {{ {SMALL} combine_method: 'sum' }} {OVERRIDE}"
        " conv_hyperparams { activation: RELU regularizer { l1_regularizer { weight: 7 } } }"
    )
    assert {(each.kind, each.weight) for each in layers.regularizers.values()} == {("l1", 7.0)}
    assert network.get_layer("backbone_stem_bn").momentum == 0.99
    assert isinstance(network.get_layer("backbone_stem_act"), tf_keras.layers.Multiply)
    assert isinstance(network.get_layer("bifpn_0_act"), tf_keras.layers.ReLU)


def test_attention_that_adds_up_unweighted_is_told(caplog):
    _network(f"{BIFPN} bifpn {{ {SMALL} combine_method: 'attention' }}")
    assert "e.bifpn.combine_method: attention is an unweighted sum" in caplog.text


@cases((False, 1024), (True, 256))
def test_a_lite_pyramid_narrows_mobilenet_v1(*, lite, top):
    network, _ = _network(
        f"{V1}_fpn_keras' fpn {{ min_level: 2 max_level: 6 additional_layer_depth: 24 }}"
        f" use_depthwise: {'true' if lite else 'false'}"
    )
    assert _shapes(network) == [(16 >> i, 24 >> i, 24) for i in range(4)] + [(1, 2, 24)]
    assert network.get_layer("backbone_separable_13_pointwise").filters == top
