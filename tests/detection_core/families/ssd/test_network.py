import tf_keras
from google.protobuf import text_format

from detection_core.builders.backbones import BACKBONES
from detection_core.errors import ConfigError
from detection_core.families.ssd.extractors import COMBINE_METHODS, EXTRACTORS, NAMED_EXTRACTORS
from detection_core.families.ssd.network import NECKS, build_feature_maps
from detection_core.parts import necks
from detection_core.parts.layers.keras_layers import PREPROCESSORS
from detection_core.parts.layers.layer_hyperparams import LayerHyperparams
from detection_core.parts.layers.network_layers import NetworkLayers
from detection_core.protos import ssd_pb2
from tests.support.cases import cases, refused
from tests.support.configs import checked


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


# Others are in tests/detection_core/config/messages/test_extractors.py.
@cases(
    ("type: 'ssd_mobilenet_v2'", "^e.type: .*its name is ssd_mobilenet_v2_keras now"),
    (f"{BIFPN} use_depthwise: true", "e.use_depthwise: expected false"),
    (f"{BIFPN} use_explicit_padding: true", "e.use_explicit_padding: expected false"),
    (f"{BIFPN} bifpn {{ min_level: 3 max_level: 3 }}", "e.bifpn.min_level: .*found 3 and 3"),
    (f"{BIFPN} bifpn {{ min_level: 1 max_level: 2 }}", "num_iterations: expected a positive number, found 0"),
    (f"{BIFPN} bifpn {{ {SMALL.replace('16', '0')} }}", "num_filters: expected a positive number, found 0"),
)
def test_contradictions_are_refused(*, text, match):
    refused(ConfigError, match, _network, text)


@cases((False, 1024), (True, 256))
def test_a_lite_pyramid_narrows_mobilenet_v1(*, lite, top):
    network, _ = _network(
        f"{V1}_fpn_keras' fpn {{ min_level: 2 max_level: 6 additional_layer_depth: 24 }}"
        f" use_depthwise: {'true' if lite else 'false'}"
    )
    assert _shapes(network) == [(16 >> i, 24 >> i, 24) for i in range(4)] + [(1, 2, 24)]
    assert network.get_layer("backbone_separable_13_pointwise").filters == top
