import pytest
import tf_keras
from google.protobuf import text_format

from detection_core.builders.backbones import BACKBONES
from detection_core.config.messages.extractors import COMBINE_METHODS, EXTRACTORS, NAMED_EXTRACTORS
from detection_core.detectors.parts.layers.layer_hyperparams import LayerHyperparams
from detection_core.detectors.parts.layers.network_layers import NetworkLayers
from detection_core.detectors.parts.layers.preprocessing import PREPROCESSORS
from detection_core.detectors.parts.necks import bifpn_fusion
from detection_core.detectors.ssd.feature_maps import NECKS, build_feature_maps, find_backbone
from detection_core.errors import ConfigError
from detection_core.protos import ssd_pb2
from tests.support.cases import cases


def _message(text: str) -> ssd_pb2.SsdFeatureExtractor:
    return text_format.Parse(text, ssd_pb2.SsdFeatureExtractor())


def _maps(text: str, layers: NetworkLayers | None = None):
    layers = layers or NetworkLayers(hyperparams=LayerHyperparams())
    return build_feature_maps(_message(text), tf_keras.Input((64, 96, 3)), layers, "e")


def test_every_extractor_of_the_check_is_built_with_its_neck_and_a_preprocessor():
    assert {extractor.backbone for extractor in EXTRACTORS.values()} == set(BACKBONES)
    assert COMBINE_METHODS == bifpn_fusion.COMBINE_METHODS
    for name, extractor in EXTRACTORS.items():
        assert name.endswith("_keras") or name in NAMED_EXTRACTORS
        assert extractor.neck in NECKS
        assert BACKBONES[extractor.backbone].preprocessing in PREPROCESSORS


@cases(("ssd_mobilenet_v2", "its name is ssd_mobilenet_v2_keras now"), ("nope", "use one of these"))
def test_unknown_types_are_refused_with_advice(*, found, advice):
    with pytest.raises(ConfigError, match=f"^e.type: .*{advice}"):
        find_backbone(_message(f"type: '{found}'"), "e")


def test_pyramid_levels_and_depth_follow_the_message():
    maps = _maps(
        "type: 'ssd_mobilenet_v2_fpn_keras' depth_multiplier: 0.5 min_depth: 16"
        " fpn { min_level: 2 max_level: 6 additional_layer_depth: 48 } use_depthwise: true"
    )
    shapes = [tuple(features.shape[1:]) for features in maps]
    assert shapes == [(16, 24, 24), (8, 12, 24), (4, 6, 24), (2, 3, 24), (1, 2, 24)]


def test_number_of_layers_follows_the_message():
    maps = _maps("type: 'ssd_mobilenet_v2_keras' num_layers: 3 depth_multiplier: 0.25 min_depth: 24")
    assert [tuple(features.shape[1:3]) for features in maps] == [(4, 6), (2, 3), (1, 2)]
    assert maps[-1].shape[-1] == 128


@cases(False, True)
def test_the_backbone_has_its_own_hyperparameters_unless_they_are_overridden(*, override):
    layers = NetworkLayers(hyperparams=LayerHyperparams())
    _maps(
        "type: 'ssd_mobilenet_v2_keras' depth_multiplier: 0.25 num_layers: 3 conv_hyperparams {"
        " regularizer { l1_regularizer { weight: 7 } } batch_norm {} }"
        f" override_base_feature_extractor_hyperparams: {'true' if override else 'false'}",
        layers,
    )
    weights = {
        name: {regularizer.weight for key, regularizer in layers.regularizers.items() if key.startswith(name)}
        for name in ("backbone_", "extra_")
    }
    assert weights["extra_"] == {7.0}
    assert weights["backbone_"] == ({7.0} if override else {0.00004})


BIFPN = "type: 'ssd_efficientnet-b0_bifpn_keras'"
SMALL = "min_level: 1 max_level: 2 num_iterations: 1 num_filters: 16"


def test_bidirectional_pyramid_follows_the_message():
    maps = _maps(
        f"{BIFPN} min_depth: 24 bifpn {{ min_level: 2 max_level: 4 num_iterations: 1 num_filters: 8 }}"
    )
    assert [tuple(features.shape[1:]) for features in maps] == [(16, 24, 24), (8, 12, 24), (4, 6, 24)]


def test_an_efficientnet_takes_only_the_regularizer_of_overriding_hyperparameters():
    layers = NetworkLayers(hyperparams=LayerHyperparams())
    message = _message(
        f"{BIFPN} bifpn {{ {SMALL} combine_method: 'sum' }}"
        " conv_hyperparams { activation: RELU regularizer { l1_regularizer { weight: 7 } } }"
        " override_base_feature_extractor_hyperparams: true"
    )
    inputs = tf_keras.Input((64, 96, 3))
    network = tf_keras.Model(inputs, build_feature_maps(message, inputs, layers, "e"))
    assert {(regularizer.kind, regularizer.weight) for regularizer in layers.regularizers.values()} == {
        ("l1", 7.0)
    }
    assert network.get_layer("backbone_stem_bn").momentum == 0.99
    assert isinstance(network.get_layer("backbone_stem_act"), tf_keras.layers.Multiply)
    assert isinstance(network.get_layer("bifpn_0_act"), tf_keras.layers.ReLU)


def test_attention_that_adds_up_unweighted_is_told(caplog):
    _maps(f"{BIFPN} bifpn {{ {SMALL} combine_method: 'attention' }}")
    assert "e.bifpn.combine_method: attention adds inputs up unweighted" in caplog.text


@cases(
    (
        "type: 'ssd_resnet50_v1_fpn_keras' use_depthwise: true",
        "e.use_depthwise: expected false",
    ),
    ("type: 'ssd_mobilenet_v2_keras' num_layers: 7", "expected 1 to 6 feature maps, found 7"),
    ("type: 'ssd_mobilenet_v2_fpn_keras' fpn { min_level: 6 }", "found 6 and 7"),
    ("type: 'ssd_mobilenet_v2_fpn_keras' fpn { min_level: 4 max_level: 3 }", "found 4 and 3"),
    (f"{BIFPN} use_depthwise: true", "e.use_depthwise: expected false"),
    (f"{BIFPN} use_explicit_padding: true", "e.use_explicit_padding: expected false"),
    (f"{BIFPN} depth_multiplier: 0.5", "e.depth_multiplier: expected 1"),
    (f"{BIFPN} bifpn {{ min_level: 3 max_level: 3 }}", "e.bifpn.min_level: .*found 3 and 3"),
    (
        f"{BIFPN} bifpn {{ min_level: 1 max_level: 2 }}",
        "e.bifpn.num_iterations: expected a positive number, found 0",
    ),
    (
        f"{BIFPN} bifpn {{ min_level: 1 max_level: 2 num_iterations: 1 }}",
        "e.bifpn.num_filters: expected a positive number, found 0",
    ),
    (
        f"{BIFPN} bifpn {{ {SMALL} combine_method: 'mean' }}",
        "e.bifpn.combine_method: expected one of sum, .*found 'mean'",
    ),
)
def test_contradictions_are_refused(*, text, match):
    with pytest.raises(ConfigError, match=match):
        _maps(text)


@cases("", "use_explicit_padding: true", "use_depthwise: true num_layers: 6")
def test_mobilenet_v1_gives_the_six_maps_of_ssd(*, padding):
    text = f"type: 'ssd_mobilenet_v1_keras' depth_multiplier: 0.5 min_depth: 16 {padding}"
    message, layers = _message(text), NetworkLayers(hyperparams=LayerHyperparams())
    maps = build_feature_maps(message, tf_keras.Input((300, 300, 3)), layers, "e")
    shapes = [tuple(features.shape[1:]) for features in maps]
    assert shapes == [(19, 19, 256), (10, 10, 512), (5, 5, 256), (3, 3, 128), (2, 2, 128), (1, 1, 64)]


@cases((False, 1024), (True, 256))
def test_a_lite_pyramid_narrows_mobilenet_v1(*, lite, top):
    layers = NetworkLayers(hyperparams=LayerHyperparams())
    inputs = tf_keras.Input((64, 96, 3))
    message = _message(
        "type: 'ssd_mobilenet_v1_fpn_keras' fpn { min_level: 2 max_level: 6 additional_layer_depth: 24 }"
        f" use_depthwise: {'true' if lite else 'false'}"
    )
    maps = build_feature_maps(message, inputs, layers, "e")
    assert [tuple(f.shape[1:]) for f in maps] == [(16 >> i, 24 >> i, 24) for i in range(4)] + [(1, 2, 24)]
    network = tf_keras.Model(inputs, maps)
    assert network.get_layer("backbone_separable_13_pointwise").filters == top
