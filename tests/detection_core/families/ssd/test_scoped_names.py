"""Names of variables as TensorFlow 1 wrote them, against what its libraries call them.

For each of `TEXTS` and `MOBILE_NETWORKS`, `data/tensorflow_1_names.json.gz` has what slim calls the variables
of its classifiers, without their last layers, and what the Object Detection API calls all others.
"""

import gzip
import json
import pathlib

import pytest
import tf_keras
from google.protobuf import text_format

from detection_core.builders.backbones import BACKBONES
from detection_core.builders.detector import build_detector
from detection_core.errors import ModelError
from detection_core.families.ssd.extractors import EXTRACTORS
from detection_core.families.ssd.scoped_names import FAMILIES, scoped_variables
from detection_core.protos import model_pb2
from tests.support.cases import cases, refused
from tests.support.golden_networks import MOBILE, load_golden
from tests.support.zoo_configs import edge_config

GOLDEN = pathlib.Path(__file__).parent / "data" / "tensorflow_1_names.json.gz"
NAMES = json.loads(gzip.decompress(GOLDEN.read_bytes()))
LAYERS, PYRAMID = MOBILE
# Extractor -> the config that it is put into, and what else is changed.
TEXTS = {
    "ssd_mobilenet_v2_keras": (
        LAYERS,
        """feature_extractor { use_depthwise: true }
        box_predictor { convolutional_box_predictor { use_depthwise: true } }""",
    ),
    "ssd_mobilenet_v1_keras": (
        LAYERS,
        "box_predictor { convolutional_box_predictor { num_layers_before_predictor: 1 max_depth: 64 } }",
    ),
    # Lite pyramids with one tower.
    "ssd_mobilenet_v1_fpn_keras": (PYRAMID, ""),
    "ssd_mobilenet_v2_fpn_keras": (PYRAMID, ""),
    # Two towers and whole convolutions.
    "ssd_resnet50_v1_fpn_keras": (
        PYRAMID,
        """feature_extractor { use_depthwise: false }
        box_predictor { weight_shared_convolutional_box_predictor {
        share_prediction_tower: false use_depthwise: false num_layers_before_predictor: 1 } }""",
    ),
}
MOBILE_NETWORKS = sorted(NAMES.keys() - TEXTS.keys())
QUICK = [f"ssd_{name}" for name in ("mobilenet_v3_small", "mobiledet_dsp", "inception_v2", "inception_v3")]
"""With every kind of block and with gates; the others are slow."""


def _assert_names(extractor: str, message: model_pb2.DetectionModel) -> None:
    """The detector's variables have the recorded names: the backbone's as a classifier has them."""
    network = build_detector(message, seed=None).network
    found = list(scoped_variables(network, extractor))
    assert len({v.name for v in found}) == len(found) == len(network.weights)
    backbone = {v.name.removeprefix("FeatureExtractor/") for v in found if v.backbone}
    assert backbone == set(NAMES[extractor]["backbone"])
    assert {v.name for v in found if not v.backbone} == set(NAMES[extractor]["others"])


def _assert_mobile_names(extractor: str) -> None:
    side = 96 if "inception" in extractor else 64
    _assert_names(extractor, edge_config(extractor, side=side, classes=2, multiplier=0.25).model)


@cases(*QUICK)
def test_ssdlite_on_networks_for_mobile_devices(*, extractor):
    _assert_mobile_names(extractor)


@pytest.mark.slow
@cases(*sorted(set(MOBILE_NETWORKS) - set(QUICK)))
def test_ssdlite_on_more_networks_for_mobile_devices(*, extractor):
    _assert_mobile_names(extractor)


@cases(*TEXTS)
def test_ssd_with_other_layers_heads_and_pyramids(*, extractor):
    base, text = TEXTS[extractor]
    message = model_pb2.DetectionModel()
    message.CopyFrom(load_golden(base).message)
    message.ssd.feature_extractor.type = extractor
    text_format.Merge(text, message.ssd)
    _assert_names(extractor, message)


def test_the_families_of_tensorflow_1_are_known():
    families = {"mobilenet_v1", "mobilenet_v2", "mobilenet_v3", "mobilenet_edgetpu", "mobiledet"}
    families |= {"inception_v2", "inception_v3", "resnet_v1"}
    known = {name for name, entry in EXTRACTORS.items() if BACKBONES[entry.backbone].family in families}
    assert set(FAMILIES) == known and len(NAMES) == 15


def test_the_only_feature_map_has_no_scope_projections_are_numbered_and_unknown_names_refused():
    def scoped(layer: str, extractor: str = "ssd_mobilenet_v1_keras") -> set[str]:
        inputs = tf_keras.Input((8, 8, 3))
        network = tf_keras.Model(inputs, tf_keras.layers.Conv2D(4, 1, name=layer)(inputs))
        return {v.name for v in scoped_variables(network, extractor)}

    assert scoped("box_head_0") == {"BoxEncodingPredictor/weights", "BoxEncodingPredictor/biases"}
    projection = "WeightSharedConvolutionalBoxPredictor/ProjectionLayer/conv2d_2"
    assert scoped("head_projection_2") == {f"{projection}/weights", f"{projection}/biases"}
    refused(ModelError, "found 'somebody'", scoped, "somebody")
    expected = r"expected an extractor that TensorFlow 1 had .*object-based"
    refused(ModelError, expected, scoped, "backbone_stem", "ssd_efficientnet-b0_bifpn_keras")
