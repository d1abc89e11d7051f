"""Map variable names of TensorFlow 1's name-based checkpoints to the variables of a network.

Names are those of the Object Detection API in TensorFlow 1, starting with `FeatureExtractor` or the
predictor. Classifiers of the slim library use the same backbone names without `FeatureExtractor/`.
"""

import collections
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

import tensorflow as tf
import tf_keras

from detection_core.detectors.checkpoint_names import rewritten_layer, unnamed_extractor
from detection_core.parts.backbones import inception, mobiledet, mobilenet_v3
from detection_core.parts.backbones.inception import Module, Step
from detection_core.parts.backbones.resnet_v1 import slim_scope
from detection_core.parts.layers.layer_names import (
    LayerName,
    in_backbone,
    parse_layer_name,
    parse_variable_name,
)

FEATURE_EXTRACTOR = "FeatureExtractor/"
_SHARED_PREDICTOR = "WeightSharedConvolutionalBoxPredictor"

# Our variable's name -> its name there. Variables of a batch norm have a separate scope.
_LEAVES = {"kernel": "weights", "bias": "biases", "depthwise_kernel": "depthwise_weights"}
_NORM_LEAVES = ("gamma", "beta", "moving_mean", "moving_variance")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScopedFamily:
    """Variable naming of a family of extractors.

    Attributes:
        scope: of the backbone, below `FeatureExtractor`.
        backbone: `LayerName.unit` of a backbone's layer -> its scope below.
        coarse: scope of a pyramid level made by a strided convolution. `level` is its level, `above` its
            distance from the backbone's last level. "" if no extractor of the family has a pyramid.
        last: name of the features that extra layers start from, part of their names; "" without extra layers.
    """

    scope: str
    backbone: Mapping[str, Callable[[LayerName], str]]
    coarse: str = ""
    last: str = ""


_MOBILENET_V1 = ScopedFamily(
    scope="MobilenetV1",
    backbone={
        "backbone_stem": lambda name: "Conv2d_0",
        "backbone_separable_N": lambda name: f"Conv2d_{name.indices[0]}_{name.piece}",
    },
    coarse="bottom_up_Conv2d_{above_13}",
    last="Conv2d_13_pointwise",
)


_EXPANDED_CONV = {"gate_reduce": "squeeze_excite/Conv", "gate_expand": "squeeze_excite/Conv_1"}


def _expanded_conv(name: LayerName) -> str:
    index, piece = name.indices[0], _EXPANDED_CONV.get(name.piece, name.piece)
    return f"expanded_conv_{index}/{piece}" if index else f"expanded_conv/{piece}"


_EXPANDED_CONVS = {
    "backbone_stem": lambda name: "Conv",
    "backbone_head": lambda name: "Conv_1",
    "backbone_block_N": _expanded_conv,
}
_MOBILENET_V2 = ScopedFamily(
    scope="MobilenetV2", backbone=_EXPANDED_CONVS, coarse="bottom_up_Conv2d_{above_19}", last="layer_19"
)


def _mobilenet_v3(layers: int) -> ScopedFamily:
    return ScopedFamily(scope="MobilenetV3", backbone=_EXPANDED_CONVS, last=f"layer_{layers}")


_MOBILENET_EDGETPU = ScopedFamily(
    scope="MobilenetEdgeTPU", backbone=_EXPANDED_CONVS, last=f"layer_{len(mobilenet_v3.EDGETPU_BLOCKS) + 1}"
)

# Kind of block -> its scope, and the scopes of its convolutions.
_MOBILEDET_BLOCKS = {
    "inverted": ("IBN", {"expand": "Conv", "depthwise": "SeparableConv2d", "project": "Conv_1"}),
    "shrinking": ("IBNNoExpansion", {"depthwise": "SeparableConv2d", "project": "Conv"}),
    "fused": ("FusedConv", {"expand": "Conv", "project": "Conv_1"}),
    "tucker": ("TuckerConv", {"reduce": "Conv", "spatial": "Conv_1", "project": "Conv_2"}),
}
_MOBILEDET_GATE = {"gate_reduce": "SqueezeExcite/Conv", "gate_expand": "SqueezeExcite/Conv_1"}


def _mobiledet(hardware: str, scope: str) -> ScopedFamily:
    seen: collections.Counter[str] = collections.Counter()
    units: list[tuple[str, dict[str, str]]] = []
    for block in mobiledet.ARCHITECTURES[hardware].blocks:
        inverted = block.kind == "inverted" and block.expansion == 1
        unit, pieces = _MOBILEDET_BLOCKS["shrinking" if inverted else block.kind]
        number = f"_{seen[unit]}" if seen[unit] else ""
        units.append((f"{unit}{number}", {**pieces, **_MOBILEDET_GATE}))
        seen[unit] += 1

    def block_scope(name: LayerName) -> str:
        unit, pieces = units[name.indices[0]]
        return f"{unit}/{pieces[name.piece]}"

    backbone = {"backbone_stem": lambda name: "Conv", "backbone_block_N": block_scope}
    return ScopedFamily(scope=scope, backbone=backbone, last="C5")


def _inception(scope: str, stem: Sequence[Step], modules: Mapping[str, Module]) -> ScopedFamily:
    return ScopedFamily(scope=scope, backbone=inception.slim_scopes(stem, modules), last=list(modules)[-1])


def _resnet_v1(layers: int) -> ScopedFamily:
    return ScopedFamily(
        scope=f"resnet_v1_{layers}",
        backbone=dict.fromkeys(("backbone_stem", "backbone_block_N_N"), slim_scope),
        coarse="bottom_up_block{below}",
    )


FAMILIES: dict[str, ScopedFamily] = {
    "ssd_mobilenet_v1_keras": _MOBILENET_V1,
    "ssd_mobilenet_v1_fpn_keras": _MOBILENET_V1,
    "ssd_mobilenet_v2_keras": _MOBILENET_V2,
    "ssd_mobilenet_v2_fpn_keras": _MOBILENET_V2,
    **{f"ssd_mobilenet_v3_large{kind}": _mobilenet_v3(17) for kind in ("", "_minimalistic")},
    **{f"ssd_mobilenet_v3_small{kind}": _mobilenet_v3(13) for kind in ("", "_minimalistic")},
    "ssd_inception_v2": _inception("InceptionV2", inception.V2_STEM, inception.V2_MODULES),
    "ssd_inception_v3": _inception("InceptionV3", inception.V3_STEM, inception.V3_MODULES),
    "ssd_mobilenet_edgetpu": _MOBILENET_EDGETPU,
    "ssd_mobiledet_cpu": _mobiledet("cpu", "MobileDetCPU"),
    "ssd_mobiledet_dsp": _mobiledet("dsp", "MobileDetDSP"),
    "ssd_mobiledet_edgetpu": _mobiledet("edgetpu", "MobileDetEdgeTPU"),
    "ssd_mobiledet_gpu": _mobiledet("gpu", "MobileDetGPU"),
    "ssd_resnet50_v1_fpn_keras": _resnet_v1(50),
    "ssd_resnet101_v1_fpn_keras": _resnet_v1(101),
    "ssd_resnet152_v1_fpn_keras": _resnet_v1(152),
}
"""Extractor `type` in a config -> its variable naming in TensorFlow 1."""


class _Namer:
    def __init__(self, network: tf_keras.Model, family: ScopedFamily) -> None:
        self._network = network
        self._family = family
        self._names = {layer.name for layer in network.layers}
        parsed = [name for name in map(parse_layer_name, self._names) if name]
        levels = [name.indices[0] for name in parsed if name.part == "fpn_lateral"] or [0]
        self._finest, self._top = min(levels), max(levels)
        self._body = f"{FEATURE_EXTRACTOR}{family.scope}"

    def backbone(self, name: LayerName) -> str:
        return f"{self._body}/{self._family.backbone[name.unit](name)}"

    def pyramid(self, name: LayerName) -> str:
        level = name.indices[0]
        if name.part == "fpn_coarse":
            above = level - self._top
            numbers = {"above_13": above + 13, "above_19": above + 19, "below": level - 1}
            return f"{self._body}/fpn/{self._family.coarse.format(**numbers)}"
        scope = {"fpn_lateral": "projection", "fpn_smooth": "smoothing"}[name.part]
        return f"{self._body}/fpn/{scope}_{level - self._finest + 1}"

    def extra(self, name: LayerName) -> str:
        start, index = f"{self._body}/{self._family.last}", name.indices[0]
        if name.piece == "shrink":
            channels = self._network.get_layer(f"extra_{index}_shrink").filters
            return f"{start}_1_Conv2d_{index}_1x1_{channels}"
        last = f"extra_{index}_halve"
        last = f"{last}_pointwise" if name.piece != "halve" else last
        scope = f"{start}_2_Conv2d_{index}_3x3_s2_{self._network.get_layer(last).filters}"
        return f"{scope}_depthwise" if name.piece == "halve_depthwise" else scope

    def level_head(self, name: LayerName) -> str:
        scope = {"box_head": "BoxEncodingPredictor", "class_head": "ClassPredictor"}[name.part]
        return f"{self._predictor(name.indices[0])}{scope}{'_depthwise' if name.piece else ''}"

    def before_level_head(self, name: LayerName) -> str:
        level, index = name.indices
        channels = self._network.get_layer(f"head_shared_{level}_{index}").filters
        return f"{self._predictor(level)}Conv2d_{index}_1x1_{channels}"

    def tower(self, name: LayerName) -> str:
        return f"{_SHARED_PREDICTOR}/{_TOWERS[name.part]}Tower/conv2d_{name.indices[0]}"

    def shared_head(self, name: LayerName) -> str:
        return f"{_SHARED_PREDICTOR}/{_SHARED_HEADS[name.part]}"

    def projection(self, name: LayerName) -> str:
        return f"{_SHARED_PREDICTOR}/ProjectionLayer/conv2d_{name.indices[0]}"

    def _predictor(self, level: int) -> str:
        """Return the scope of a predictor; a single feature map has no separate scope."""
        return f"BoxPredictor_{level}/" if "box_head_1" in self._names else ""


_TOWERS = {"tower": "Prediction", "box_tower": "BoxPrediction", "class_tower": "ClassPrediction"}
_SHARED_HEADS = {"box_head": "BoxPredictor", "class_head": "ClassPredictor"}
_EXTRA_PIECES = ("shrink", "halve", "halve_depthwise", "halve_pointwise")

# (unit, piece) of a layer, without halves of separable convolutions -> scope of its variables.
_RULES: dict[tuple[str, str], Callable[[_Namer, LayerName], str]] = {
    **{(f"fpn_{kind}_N", ""): _Namer.pyramid for kind in ("lateral", "smooth", "coarse")},
    **{("extra_N", piece): _Namer.extra for piece in _EXTRA_PIECES},
    **{(f"{head}_N", piece): _Namer.level_head for head in _SHARED_HEADS for piece in ("", "depthwise")},
    ("head_shared_N_N", ""): _Namer.before_level_head,
    **{(f"{tower}_N", ""): _Namer.tower for tower in _TOWERS},
    **{(head, ""): _Namer.shared_head for head in _SHARED_HEADS},
    ("head_projection_N", ""): _Namer.projection,
}
# Layers that TensorFlow 1 stores as the two halves of one separable convolution.
_SEPARABLE = {
    "backbone_stem",
    "fpn_smooth_N",
    "fpn_coarse_N",
    *(f"{tower}_N" for tower in _TOWERS),
    *_SHARED_HEADS,
}


def _scope(name: LayerName, layer: str, namer: _Namer) -> str:
    if in_backbone(layer):
        return namer.backbone(name)
    rule = _RULES.get((name.unit, name.piece))
    if rule is None:
        raise rewritten_layer(layer)
    return rule(namer, name)


def _name(layer: str, leaf: str, namer: _Namer) -> str:
    name = parse_layer_name(layer)
    if name is None:
        raise rewritten_layer(layer)
    if leaf in _NORM_LEAVES:
        feature = "" if name.level is None else f"/feature_{name.level}"
        normalized = dataclasses.replace(name, norm=False, level=None)
        return f"{_scope(normalized, layer, namer)}/BatchNorm{feature}/{leaf}"
    if name.unit not in _SEPARABLE or name.piece not in ("depthwise", "pointwise"):
        return f"{_scope(name, layer, namer)}/{_LEAVES[leaf]}"
    scope = _scope(dataclasses.replace(name, piece=""), layer, namer)
    return f"{scope}/pointwise_weights" if leaf == "kernel" else f"{scope}/{_LEAVES[leaf]}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScopedVariable:
    """A variable and its name in TensorFlow 1 checkpoints.

    Attributes:
        name: in a detector's checkpoint.
        backbone: whether a classifier's checkpoint also has it.
        variable: of the network.
    """

    name: str
    backbone: bool
    variable: tf.Variable


def scoped_variables(network: tf_keras.Model, extractor: str) -> Iterator[ScopedVariable]:
    """Name every variable of a network as in TensorFlow 1 checkpoints.

    The network must not be rewritten; the extractor is one of `FAMILIES`.

    Raises:
        ModelError: when the extractor is of another family, or no rule names one of the network's layers.
    """
    if extractor not in FAMILIES:
        raise unnamed_extractor(extractor, FAMILIES)
    namer = _Namer(network, FAMILIES[extractor])
    for layer in network.layers:
        for variable in layer.weights:
            yield ScopedVariable(
                name=_name(layer.name, parse_variable_name(variable).weight, namer),
                backbone=in_backbone(layer.name),
                variable=variable,
            )
