"""Names of variables as TensorFlow 1 wrote them, against what its libraries call them."""

from collections.abc import Collection

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

LAYERS, PYRAMID = MOBILE
NORM = ("beta", "gamma", "moving_mean", "moving_variance")
SHARED = "WeightSharedConvolutionalBoxPredictor"


def _normed(scope: str, weights: str = "weights") -> set[str]:
    return {f"{scope}/{weights}", *(f"{scope}/BatchNorm/{leaf}" for leaf in NORM)}


def _separable(scope: str) -> set[str]:
    return {f"{scope}/pointwise_weights"} | _normed(scope, "depthwise_weights")


def _biased(scope: str) -> set[str]:
    return {f"{scope}/weights", f"{scope}/biases"}


# What the slim library calls the variables of its classifiers, without their last layers.
def _mobilenet_v1() -> set[str]:
    names = _normed("MobilenetV1/Conv2d_0")
    for block in range(1, 14):
        names |= _normed(f"MobilenetV1/Conv2d_{block}_depthwise", "depthwise_weights")
        names |= _normed(f"MobilenetV1/Conv2d_{block}_pointwise")
    return names


def _mobilenet(
    kind: str, blocks: int, *, last: bool = True, gated: Collection[int] = (), depthwise_from: int = 0
) -> set[str]:
    """MobileNets 2 and 3 and EdgeTPU's, of expanding blocks."""
    names = _normed(f"Mobilenet{kind}/Conv") | (_normed(f"Mobilenet{kind}/Conv_1") if last else set())
    for block in range(blocks):
        scope = f"Mobilenet{kind}/expanded_conv" + (f"_{block}" if block else "")
        names |= _normed(f"{scope}/project") | (_normed(f"{scope}/expand") if block else set())
        names |= _normed(f"{scope}/depthwise", "depthwise_weights") if block >= depthwise_from else set()
        if block in gated:
            names |= _biased(f"{scope}/squeeze_excite/Conv") | _biased(f"{scope}/squeeze_excite/Conv_1")
    return names


def _mobiledet(scope: str, blocks: str, gated: bool = False) -> set[str]:
    """Letters of the blocks: n, i, f and t for those without expansion, inverted, fused and after Tucker."""
    names, seen = _normed(f"{scope}/Conv"), dict.fromkeys("nift", 0)
    kinds = {"n": ("IBNNoExpansion", 1), "i": ("IBN", 2), "f": ("FusedConv", 2), "t": ("TuckerConv", 3)}
    for letter in blocks:
        kind, convolutions = kinds[letter]
        block = f"{scope}/{kind}" + (f"_{seen[letter]}" if seen[letter] else "")
        seen[letter] += 1
        for number in range(convolutions):
            names |= _normed(f"{block}/Conv" + (f"_{number}" if number else ""))
        names |= _normed(f"{block}/SeparableConv2d", "depthwise_weights") if letter in "ni" else set()
        if gated:
            names |= _biased(f"{block}/SqueezeExcite/Conv") | _biased(f"{block}/SqueezeExcite/Conv_1")
    return names


# What the slim library calls the convolutions of each module of Inception, branch by branch.
_SHRUNK, _POOLED = ("Conv2d_0a_1x1",), ("Conv2d_0b_1x1",)
_THREE = (*_SHRUNK, "Conv2d_0b_3x3")
_TWICE_THREE = (*_THREE, "Conv2d_0c_3x3")
_PLAIN_V2 = (_SHRUNK, _THREE, _TWICE_THREE, _POOLED)
_HALVING_V2 = ((*_SHRUNK, "Conv2d_1a_3x3"), (*_THREE, "Conv2d_1a_3x3"))
_WIDE_V3 = (_SHRUNK, (*_SHRUNK, "Conv2d_0b_5x5"), _TWICE_THREE, _POOLED)
_SEVEN = (*_SHRUNK, "Conv2d_0b_1x7", "Conv2d_0c_7x1")
_SEVENS_TWICE = (*_SHRUNK, "Conv2d_0b_7x1", "Conv2d_0c_1x7", "Conv2d_0d_7x1", "Conv2d_0e_1x7")
_SEVENS_V3 = (_SHRUNK, _SEVEN, _SEVENS_TWICE, _POOLED)
_SPLIT = (*_THREE, "Conv2d_0c_1x3", "Conv2d_0d_3x1")
_INCEPTION_V2 = {
    **{f"Mixed_{name}": _PLAIN_V2 for name in ["3b", "3c", "4b", "4c", "4d", "4e", "5b", "5c"]},
    **dict.fromkeys(("Mixed_4a", "Mixed_5a"), _HALVING_V2),
}
_INCEPTION_V3 = {
    "Mixed_5b": _WIDE_V3,
    "Mixed_5c": (_SHRUNK, ("Conv2d_0b_1x1", "Conv_1_0c_5x5"), _TWICE_THREE, _POOLED),
    "Mixed_5d": _WIDE_V3,
    "Mixed_6a": (("Conv2d_1a_1x1",), (*_THREE, "Conv2d_1a_1x1")),
    **{f"Mixed_{name}": _SEVENS_V3 for name in ("6b", "6c", "6d", "6e")},
    "Mixed_7a": ((*_SHRUNK, "Conv2d_1a_3x3"), (*_SEVEN, "Conv2d_1a_3x3")),
    "Mixed_7b": (_SHRUNK, (*_SHRUNK, "Conv2d_0b_1x3", "Conv2d_0b_3x1"), _SPLIT, _POOLED),
    "Mixed_7c": (_SHRUNK, (*_SHRUNK, "Conv2d_0b_1x3", "Conv2d_0c_3x1"), _SPLIT, _POOLED),
}


def _inception(scope: str, stem: set[str], modules) -> set[str]:
    names = set().union(*(_normed(f"{scope}/{name}") for name in stem))
    for module, branches in modules.items():
        for number, branch in enumerate(branches):
            names = names.union(*(_normed(f"{scope}/{module}/Branch_{number}/{name}") for name in branch))
    return names


def _message(base: str, extractor: str, text: str = "") -> model_pb2.DetectionModel:
    message = model_pb2.DetectionModel()
    message.CopyFrom(load_golden(base).message)
    message.ssd.feature_extractor.type = extractor
    text_format.Merge(text, message)
    return message


def _names(message: model_pb2.DetectionModel) -> tuple[set[str], set[str]]:
    """Names of a detector's variables: the backbone's as a classifier has them, and the others."""
    network = build_detector(message, seed=None).network
    found = list(scoped_variables(network, message.ssd.feature_extractor.type))
    assert len({v.name for v in found}) == len(found) == len(network.weights)
    backbone = {v.name.removeprefix("FeatureExtractor/") for v in found if v.backbone}
    return backbone, {v.name for v in found if not v.backbone}


def _level_heads(levels: int, depthwise: bool = False) -> set[str]:
    names = set()
    for level in range(levels):
        for head in ("BoxEncodingPredictor", "ClassPredictor"):
            names |= _biased(f"BoxPredictor_{level}/{head}")
            if depthwise:
                names |= _normed(f"BoxPredictor_{level}/{head}_depthwise", "depthwise_weights")
    return names


def _extra(start: str, channels=(512, 256, 256, 128), depthwise: bool = False) -> set[str]:
    names = set()
    for index, depth in enumerate(channels, start=6 - len(channels)):
        halve = f"{start}_2_Conv2d_{index}_3x3_s2_{depth}"
        names |= _normed(f"{start}_1_Conv2d_{index}_1x1_{depth // 2}") | _normed(halve)
        names |= _normed(f"{halve}_depthwise", "depthwise_weights") if depthwise else set()
    return names


def test_ssd_mobilenet_v2_with_separable_layers():
    text = """ssd { feature_extractor { use_depthwise: true }
        box_predictor { convolutional_box_predictor { use_depthwise: true } } }"""
    extra = _extra("FeatureExtractor/MobilenetV2/layer_19", depthwise=True)
    wanted = _mobilenet("V2", 17), extra | _level_heads(6, depthwise=True)
    assert _names(_message(LAYERS, "ssd_mobilenet_v2_keras", text)) == wanted


SSDLITE = {
    "mobilenet_v3_large": (_mobilenet("V3", 15, gated={3, 4, 5, *range(10, 15)}), "MobilenetV3/layer_17"),
    "mobilenet_v3_small": (_mobilenet("V3", 11, gated={0, *range(3, 11)}), "MobilenetV3/layer_13"),
    "mobilenet_v3_large_minimalistic": (_mobilenet("V3", 15), "MobilenetV3/layer_17"),
    "mobilenet_edgetpu": (
        _mobilenet("EdgeTPU", 22, last=False, depthwise_from=9),
        "MobilenetEdgeTPU/layer_23",
    ),
    "mobiledet_cpu": (_mobiledet("MobileDetCPU", "n" + "i" * 18, gated=True), "MobileDetCPU/C5"),
    "mobiledet_dsp": (_mobiledet("MobileDetDSP", "nffitfifffiiifiiiiifti"), "MobileDetDSP/C5"),
    "mobiledet_edgetpu": (_mobiledet("MobileDetEdgeTPU", "tffffffffiiffiiiiiiiii"), "MobileDetEdgeTPU/C5"),
    "mobiledet_gpu": (_mobiledet("MobileDetGPU", "tftttffffffffffffffffi"), "MobileDetGPU/C5"),
    "inception_v2": (
        _separable("InceptionV2/Conv2d_1a_7x7")
        | _inception("InceptionV2", {"Conv2d_2b_1x1", "Conv2d_2c_3x3"}, _INCEPTION_V2),
        "InceptionV2/Mixed_5c",
    ),
    "inception_v3": (
        _inception(
            "InceptionV3",
            {"Conv2d_1a_3x3", "Conv2d_2a_3x3", "Conv2d_2b_3x3", "Conv2d_3b_1x1", "Conv2d_4a_3x3"},
            _INCEPTION_V3,
        ),
        "InceptionV3/Mixed_7c",
    ),
}
QUICK = ("mobilenet_v3_small", "mobiledet_dsp", "inception_v2", "inception_v3")
"""With every kind of block and with gates; the others are slow."""


@pytest.mark.parametrize(
    "extractor", [*QUICK, *(pytest.param(x, marks=pytest.mark.slow) for x in SSDLITE if x not in QUICK)]
)
def test_ssdlite_on_networks_for_mobile_devices(extractor):
    wanted, last = SSDLITE[extractor]
    side = 96 if "inception" in extractor else 64
    config = edge_config(f"ssd_{extractor}", side=side, classes=2, multiplier=0.25)
    channels = (128, 64, 32) if extractor == "inception_v3" else (128, 64, 64, 32)
    extra = _extra(f"FeatureExtractor/{last}", channels, depthwise=True)
    assert _names(config.model) == (wanted, extra | _level_heads(6, depthwise=True))


def test_ssd_mobilenet_v1_with_shared_layers_before_the_heads():
    text = """ssd { box_predictor { convolutional_box_predictor {
        num_layers_before_predictor: 1 max_depth: 64 } } }"""
    before = set().union(*(_normed(f"BoxPredictor_{level}/Conv2d_0_1x1_64") for level in range(6)))
    extra = _extra("FeatureExtractor/MobilenetV1/Conv2d_13_pointwise")
    wanted = _mobilenet_v1(), before | extra | _level_heads(6)
    assert _names(_message(LAYERS, "ssd_mobilenet_v1_keras", text)) == wanted


def _pyramid(scope: str, coarse: tuple[str, str], convolution) -> set[str]:
    pyramid = f"FeatureExtractor/{scope}/fpn"
    names = set().union(*(_biased(f"{pyramid}/projection_{number}") for number in (1, 2, 3)))
    return names.union(
        *(convolution(f"{pyramid}/smoothing_{number}") for number in (1, 2)),
        *(convolution(f"{pyramid}/{name}") for name in coarse),
    )


@cases(
    ("ssd_mobilenet_v1_fpn_keras", "MobilenetV1", (14, 15), _mobilenet_v1()),
    ("ssd_mobilenet_v2_fpn_keras", "MobilenetV2", (20, 21), _mobilenet("V2", 17)),
)
def test_a_lite_pyramid_with_one_tower(*, extractor, scope, coarse, backbone_names):
    wanted = _pyramid(scope, [f"bottom_up_Conv2d_{number}" for number in coarse], _separable)
    halves = {"depthwise_weights", "pointwise_weights"}
    for head in ("BoxPredictor", "ClassPredictor"):
        wanted |= {f"{SHARED}/{head}/{leaf}" for leaf in halves | {"biases"}}
    for index in range(4):
        wanted |= _tower(f"PredictionTower/conv2d_{index}", halves)
    assert _names(_message(PYRAMID, extractor)) == (backbone_names, wanted)


def _tower(scope: str, weights: set[str]) -> set[str]:
    norms = {f"BatchNorm/feature_{level}/{leaf}" for level in range(5) for leaf in NORM}
    return {f"{SHARED}/{scope}/{name}" for name in weights | norms}


def test_a_pyramid_with_two_towers_and_whole_convolutions():
    text = """ssd { feature_extractor { use_depthwise: false }
        box_predictor { weight_shared_convolutional_box_predictor {
            share_prediction_tower: false use_depthwise: false num_layers_before_predictor: 1 } } }"""
    wanted = _pyramid("resnet_v1_50", ("bottom_up_block5", "bottom_up_block6"), _normed)
    for head in ("Box", "Class"):
        wanted |= _biased(f"{SHARED}/{head}Predictor")
        wanted |= _tower(f"{head}PredictionTower/conv2d_0", {"weights"})
    names = _normed("resnet_v1_50/conv1")
    for block, units in enumerate((3, 4, 6, 3), start=1):
        for unit in range(1, units + 1):
            for part in ("conv1", "conv2", "conv3", *(["shortcut"] if unit == 1 else [])):
                names |= _normed(f"resnet_v1_50/block{block}/unit_{unit}/bottleneck_v1/{part}")
    assert _names(_message(PYRAMID, "ssd_resnet50_v1_fpn_keras", text)) == (names, wanted)


def test_the_families_of_tensorflow_1_are_known():
    families = {"mobilenet_v1", "mobilenet_v2", "mobilenet_v3", "mobilenet_edgetpu", "mobiledet"}
    families |= {"inception_v2", "inception_v3", "resnet_v1"}
    known = {name for name, entry in EXTRACTORS.items() if BACKBONES[entry.backbone].family in families}
    assert set(FAMILIES) == known


def test_the_only_feature_map_has_no_scope_projections_are_numbered_and_unknown_names_refused():
    def scoped(layer: str, extractor: str = "ssd_mobilenet_v1_keras") -> set[str]:
        inputs = tf_keras.Input((8, 8, 3))
        network = tf_keras.Model(inputs, tf_keras.layers.Conv2D(4, 1, name=layer)(inputs))
        return {v.name for v in scoped_variables(network, extractor)}

    assert scoped("box_head_0") == _biased("BoxEncodingPredictor")
    assert scoped("head_projection_2") == _biased(f"{SHARED}/ProjectionLayer/conv2d_2")
    refused(ModelError, "found 'somebody'", scoped, "somebody")
    expected = r"expected an extractor that TensorFlow 1 had .*object-based"
    refused(ModelError, expected, scoped, "backbone_stem", "ssd_efficientnet-b0_bifpn_keras")
