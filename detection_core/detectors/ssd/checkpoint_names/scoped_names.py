"""Variable name -> variable of a network, for the name-based checkpoints of TensorFlow 1.

Names are those of the Object Detection API in TensorFlow 1: scopes from `FeatureExtractor` or the predictor
on. A classifier of the slim library has the backbone's variables under the same names without
`FeatureExtractor/`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping

import tensorflow as tf
import tf_keras

from detection_core.detectors.ssd.checkpoint_names.object_keys import leaf_name
from detection_core.errors import ModelError

FEATURE_EXTRACTOR = "FeatureExtractor/"
_SHARED_PREDICTOR = "WeightSharedConvolutionalBoxPredictor"

# Our variable's name -> its name there. Variables of a batch norm lie in a scope of their own.
_LEAVES = {"kernel": "weights", "bias": "biases", "depthwise_kernel": "depthwise_weights"}
_NORM_LEAVES = ("gamma", "beta", "moving_mean", "moving_variance")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScopedFamily:
    """How a family of extractors named its variables.

    Attributes:
        scope: of the backbone, below `FeatureExtractor`.
        backbone: name of a backbone's layer, as a regular expression, -> scope below, with the groups in it.
        coarse: scope of a pyramid level made by a strided convolution: `level` is its own, `above` how far
            it lies above the backbone's last.
        last: name of the features that extra layers start from, part of their names.
    """

    scope: str
    backbone: Mapping[str, Callable[..., str]]
    coarse: str
    last: str = ""


_MOBILENET_V1 = ScopedFamily(
    scope="MobilenetV1",
    backbone={
        r"stem": lambda: "Conv2d_0",
        r"separable_(\d+)_(\w+)": lambda index, part: f"Conv2d_{index}_{part}",
    },
    coarse="bottom_up_Conv2d_{above_13}",
    last="Conv2d_13_pointwise",
)
_MOBILENET_V2 = ScopedFamily(
    scope="MobilenetV2",
    backbone={
        r"stem": lambda: "Conv",
        r"head": lambda: "Conv_1",
        r"block_0_(\w+)": lambda part: f"expanded_conv/{part}",
        r"block_(\d+)_(\w+)": lambda index, part: f"expanded_conv_{index}/{part}",
    },
    coarse="bottom_up_Conv2d_{above_19}",
    last="layer_19",
)
_BOTTLENECK = {"shortcut": "shortcut", "reduce": "conv1", "spatial": "conv2", "expand": "conv3"}


def _resnet_unit(stage: str, unit: str, part: str) -> str:
    return f"block{int(stage) + 1}/unit_{int(unit) + 1}/bottleneck_v1/{_BOTTLENECK[part]}"


def _resnet_v1(layers: int) -> ScopedFamily:
    return ScopedFamily(
        scope=f"resnet_v1_{layers}",
        backbone={r"stem": lambda: "conv1", r"block_(\d+)_(\d+)_(\w+)": _resnet_unit},
        coarse="bottom_up_block{below}",
    )


FAMILIES: dict[str, ScopedFamily] = {
    "ssd_mobilenet_v1_keras": _MOBILENET_V1,
    "ssd_mobilenet_v1_fpn_keras": _MOBILENET_V1,
    "ssd_mobilenet_v2_keras": _MOBILENET_V2,
    "ssd_mobilenet_v2_fpn_keras": _MOBILENET_V2,
    "ssd_resnet50_v1_fpn_keras": _resnet_v1(50),
    "ssd_resnet101_v1_fpn_keras": _resnet_v1(101),
    "ssd_resnet152_v1_fpn_keras": _resnet_v1(152),
}
"""The extractors, by their `type` in a config, whose names in TensorFlow 1 are known."""


class _Namer:
    """Knows a network and its family; methods that a rule names take the groups of the rule's pattern."""

    def __init__(self, network: tf_keras.Model, family: ScopedFamily) -> None:
        self._network = network
        self._family = family
        self._names = {layer.name for layer in network.layers}
        laterals = [name for name in self._names if name.startswith("fpn_lateral_")]
        levels = [int(name.rpartition("_")[2]) for name in laterals] or [0]
        self._finest, self._top = min(levels), max(levels)
        self._body = f"{FEATURE_EXTRACTOR}{family.scope}"

    def backbone(self, name: str) -> str:
        for pattern, scope in self._family.backbone.items():
            match = re.fullmatch(pattern, name)
            if match:
                return f"{self._body}/{scope(*match.groups())}"
        raise KeyError(name)

    def pyramid(self, kind: str, level: str) -> str:
        if kind == "coarse":
            above = int(level) - self._top
            numbers = {"above_13": above + 13, "above_19": above + 19, "below": int(level) - 1}
            return f"{self._body}/fpn/{self._family.coarse.format(**numbers)}"
        scope = {"lateral": "projection", "smooth": "smoothing"}[kind]
        return f"{self._body}/fpn/{scope}_{int(level) - self._finest + 1}"

    def extra(self, index: str, kind: str) -> str:
        start = f"{self._body}/{self._family.last}"
        if kind == "shrink":
            channels = self._network.get_layer(f"extra_{index}_shrink").filters
            return f"{start}_1_Conv2d_{index}_1x1_{channels}"
        last = f"extra_{index}_halve"
        last = f"{last}_pointwise" if kind != "halve" else last
        name = f"{start}_2_Conv2d_{index}_3x3_s2_{self._network.get_layer(last).filters}"
        return f"{name}_depthwise" if kind == "halve_depthwise" else name

    def level_head(self, kind: str, level: str, part: str | None) -> str:
        name = {"box": "BoxEncodingPredictor", "class": "ClassPredictor"}[kind]
        return f"{self._predictor(level)}{name}{'_depthwise' if part else ''}"

    def before_level_head(self, level: str, index: str) -> str:
        channels = self._network.get_layer(f"head_shared_{level}_{index}").filters
        return f"{self._predictor(level)}Conv2d_{index}_1x1_{channels}"

    def _predictor(self, level: str) -> str:
        """Predictors of a single feature map have no scope of their own."""
        return f"BoxPredictor_{level}/" if "box_head_1" in self._names else ""


_TOWERS = {"tower": "Prediction", "box_tower": "BoxPrediction", "class_tower": "ClassPrediction"}


def _tower(namer: _Namer, scope: str, index: str) -> str:
    return f"{_SHARED_PREDICTOR}/{_TOWERS[scope]}Tower/conv2d_{index}"


# Name of a layer without the suffixes of halves and normalisations -> scope of its variables.
_RULES: dict[str, Callable[..., str]] = {
    r"backbone_(\w+)": _Namer.backbone,
    r"fpn_(lateral|smooth|coarse)_(\d+)": _Namer.pyramid,
    r"extra_(\d+)_(shrink|halve|halve_depthwise|halve_pointwise)": _Namer.extra,
    r"(box|class)_head_(\d+)(?:_(depthwise))?": _Namer.level_head,
    r"head_shared_(\d+)_(\d+)": _Namer.before_level_head,
    r"(tower|box_tower|class_tower)_(\d+)": _tower,
    r"(box|class)_head": lambda namer, kind: f"{_SHARED_PREDICTOR}/{kind.capitalize()}Predictor",
    r"head_projection_(\d+)": lambda namer, level: f"{_SHARED_PREDICTOR}/ProjectionLayer/conv2d_{level}",
}
# Layers that TensorFlow 1 keeps as the two halves of one separable convolution.
_SEPARABLE = r"fpn_(?:smooth|coarse)_\d+|(?:box_|class_)?tower_\d+|(?:box|class)_head"
_HALF = re.compile(rf"({_SEPARABLE})_(?:depthwise|pointwise)")
_TOWER_NORM = re.compile(r"((?:box_|class_)?tower_\d+)_level_(\d+)_bn")


def _scope(layer: str, namer: _Namer) -> str:
    for pattern, rule in _RULES.items():
        match = re.fullmatch(pattern, layer)
        if match:
            return rule(namer, *match.groups())
    raise ModelError(
        f"expected a layer of a detector's network as it was built, found {layer!r}; read the checkpoint"
        " before the network is rewritten",
        where=layer,
    )


def _name(layer: str, leaf: str, namer: _Namer) -> str:
    """The name of a layer's variable in the checkpoint."""
    if leaf in _NORM_LEAVES:
        of_tower = _TOWER_NORM.fullmatch(layer)
        if of_tower:
            return f"{_scope(of_tower[1], namer)}/BatchNorm/feature_{of_tower[2]}/{leaf}"
        return f"{_scope(layer.removesuffix('_bn'), namer)}/BatchNorm/{leaf}"
    half = _HALF.fullmatch(layer)
    if half is None:
        return f"{_scope(layer, namer)}/{_LEAVES[leaf]}"
    scope = _scope(half[1], namer)
    return f"{scope}/pointwise_weights" if leaf == "kernel" else f"{scope}/{_LEAVES[leaf]}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScopedVariable:
    """A variable and what a checkpoint of TensorFlow 1 calls it.

    Attributes:
        name: in a detector's checkpoint.
        backbone: whether a classifier's checkpoint has it, too.
        variable: of the network.
    """

    name: str
    backbone: bool
    variable: tf.Variable


def scoped_variables(network: tf_keras.Model, extractor: str) -> Iterator[ScopedVariable]:
    """Name every variable of a network as a checkpoint of TensorFlow 1 does.

    Args:
        network: as a builder made it, before any rewriting.
        extractor: the extractor's `type` in the config, one of `FAMILIES`.

    Raises:
        ModelError: when the extractor is of another family, or the network has a layer that no rule knows.
    """
    if extractor not in FAMILIES:
        raise ModelError(
            f"expected an extractor that TensorFlow 1 had ({', '.join(FAMILIES)}), found {extractor}; use an"
            " object-based checkpoint of TensorFlow 2",
            where=extractor,
        )
    namer = _Namer(network, FAMILIES[extractor])
    for layer in network.layers:
        for variable in layer.weights:
            yield ScopedVariable(
                name=_name(layer.name, leaf_name(variable), namer),
                backbone=layer.name.startswith("backbone_"),
                variable=variable,
            )
