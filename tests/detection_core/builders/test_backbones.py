import pytest
import tf_keras

from detection_core.builders import backbones
from detection_core.builders.backbones import register_backbone, unregister_backbone
from detection_core.config.messages.extractors import Extractor, register_extractor, unregister_extractor
from detection_core.detectors.parts.backbones.base import Endpoints
from detection_core.detectors.parts.layers.layer_hyperparams import LayerHyperparams
from detection_core.detectors.parts.layers.network_layers import NetworkLayers
from detection_core.detectors.ssd.feature_maps import build_feature_maps
from detection_core.protos.ssd_pb2 import SsdFeatureExtractor
from tests.support.cases import config_refused, refused
from tests.support.configs import parsed


def _layers():
    return NetworkLayers(hyperparams=LayerHyperparams())


def _plain(inputs, layers, shape):
    """Levels whose layers have names that end in other numbers than theirs."""
    features, levels = inputs, {}
    for level in range(1, 6):
        features = layers.conv(f"backbone_{9 - level}", shape.min_depth, 3, stride=2)(features)
        levels[level] = features
    return Endpoints(levels)


@pytest.fixture
def plain():
    entry = backbones.BackboneEntry(
        family="plain", preprocessing="unit_range", hyperparams=LayerHyperparams(), build=_plain
    )
    register_backbone("plain", entry)
    register_extractor("ssd_plain_fpn", Extractor(backbone="plain", neck="fpn"))
    yield entry
    unregister_backbone("plain")
    unregister_extractor("ssd_plain_fpn")


def _maps():
    text = "type: 'ssd_plain_fpn' min_depth: 8 fpn { min_level: 3 max_level: 6 additional_layer_depth: 8 }"
    inputs = tf_keras.Input((64, 64, 3))
    return build_feature_maps(parsed(SsdFeatureExtractor, text), inputs, _layers(), "e")


def test_a_backbone_from_outside_gets_a_neck_and_names_are_given_once(plain):
    assert [tuple(features.shape[1:]) for features in _maps()] == [(8, 8, 8), (4, 4, 8), (2, 2, 8), (1, 1, 8)]
    unregister_backbone("plain")
    config_refused(r"^e\.type: expected a backbone 'plain', .*register_backbone", _maps)
    register_backbone("plain", plain)
    refused(ValueError, "'plain', which is taken", register_backbone, "plain", plain)
    fpn, pan = (Extractor(backbone="plain", neck=neck) for neck in ("fpn", "pan"))
    refused(ValueError, "'ssd_plain_fpn', which is taken", register_extractor, "ssd_plain_fpn", fpn)
    message = "expected a neck of extra_layers, fpn, bifpn, found 'pan'"
    refused(ValueError, message, register_extractor, "ssd_plain_pan", pan)
