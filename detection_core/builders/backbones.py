"""SsdFeatureExtractor messages -> the feature maps of a network."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from detection_core.builders.hyperparams import build_hyperparams
from detection_core.config.messages.extractors import EXTRACTORS, extractor_problems
from detection_core.config.problems import raise_first
from detection_core.detectors.parts.backbones import efficientnet, mobilenet_v1, mobilenet_v2, resnet_v1
from detection_core.detectors.parts.layers.layer_hyperparams import LayerHyperparams
from detection_core.detectors.parts.layers.network_layers import NetworkLayers
from detection_core.detectors.parts.necks.bifpn import BifpnOptions, bidirectional_pyramid
from detection_core.detectors.parts.necks.extra_layers import ExtraLayersOptions, extra_layers
from detection_core.detectors.parts.necks.fpn import FpnOptions, feature_pyramid
from detection_core.protos import ssd_pb2

_logger = logging.getLogger(__name__)

Ends = Mapping[str, tf.Tensor]


@dataclasses.dataclass(frozen=True, kw_only=True)
class BackboneEntry:
    """A feature extractor that configs name by `type`.

    Attributes:
        family: the backbone's family.
        preprocessing: name in `models.preprocessing.PREPROCESSORS`.
        hyperparams: of the backbone, where the config does not override them.
        backbone: adds the backbone to a network: (inputs, layers, message) -> named features.
        overrides_penalty_only: overriding the hyperparameters replaces the penalty and nothing else.
    """

    family: str
    preprocessing: str
    hyperparams: LayerHyperparams
    backbone: Callable[[tf.Tensor, NetworkLayers, Any], Ends]
    overrides_penalty_only: bool = False

    def overridden(self, own: LayerHyperparams) -> LayerHyperparams:
        """What the backbone is made with when the message's own hyperparameters override its own."""
        if self.overrides_penalty_only:
            return dataclasses.replace(self.hyperparams, penalty=own.penalty)
        return own


def _mobilenet_v1(
    inputs: tf.Tensor, layers: NetworkLayers, message: Any, *, narrow_top: bool = False
) -> Ends:
    options = mobilenet_v1.MobileNetV1Options(
        depth_multiplier=message.depth_multiplier, min_depth=message.min_depth, narrow_top=narrow_top
    )
    return mobilenet_v1.mobilenet_v1(inputs, layers, options)


def _mobilenet_v1_of_pyramid(inputs: tf.Tensor, layers: NetworkLayers, message: Any) -> Ends:
    return _mobilenet_v1(inputs, layers, message, narrow_top=message.use_depthwise)


def _mobilenet_v2(inputs: tf.Tensor, layers: NetworkLayers, message: Any) -> Ends:
    options = mobilenet_v2.MobileNetV2Options(
        depth_multiplier=message.depth_multiplier, min_depth=message.min_depth
    )
    return mobilenet_v2.mobilenet_v2(inputs, layers, options)


def _resnet_v1(num_layers: int) -> BackboneEntry:
    def backbone(inputs: tf.Tensor, layers: NetworkLayers, message: Any) -> Ends:
        options = resnet_v1.ResNetOptions(
            num_layers=num_layers, depth_multiplier=message.depth_multiplier, min_depth=message.min_depth
        )
        return resnet_v1.resnet_v1(inputs, layers, options)

    return BackboneEntry(
        family="resnet_v1",
        preprocessing="channel_means",
        hyperparams=resnet_v1.DEFAULT_HYPERPARAMS,
        backbone=backbone,
    )


def _efficientnet(version: int) -> BackboneEntry:
    def backbone(inputs: tf.Tensor, layers: NetworkLayers, message: Any) -> Ends:
        max_level = min(message.bifpn.max_level, efficientnet.MAX_LEVEL)
        options = efficientnet.EfficientNetOptions(version=version, max_level=max_level)
        return efficientnet.efficientnet(inputs, layers, options)

    return BackboneEntry(
        family=f"efficientnet_b{version}",
        preprocessing="standardize",
        hyperparams=efficientnet.DEFAULT_HYPERPARAMS,
        backbone=backbone,
        overrides_penalty_only=True,
    )


BACKBONES: dict[str, BackboneEntry] = {
    "ssd_mobilenet_v1_keras": BackboneEntry(
        family="mobilenet_v1",
        preprocessing="unit_range",
        hyperparams=mobilenet_v1.DEFAULT_HYPERPARAMS,
        backbone=_mobilenet_v1,
    ),
    "ssd_mobilenet_v1_fpn_keras": BackboneEntry(
        family="mobilenet_v1",
        preprocessing="unit_range",
        hyperparams=mobilenet_v1.DEFAULT_HYPERPARAMS,
        backbone=_mobilenet_v1_of_pyramid,
    ),
    "ssd_mobilenet_v2_keras": BackboneEntry(
        family="mobilenet_v2",
        preprocessing="unit_range",
        hyperparams=mobilenet_v2.DEFAULT_HYPERPARAMS,
        backbone=_mobilenet_v2,
    ),
    "ssd_mobilenet_v2_fpn_keras": BackboneEntry(
        family="mobilenet_v2",
        preprocessing="unit_range",
        hyperparams=mobilenet_v2.DEFAULT_HYPERPARAMS,
        backbone=_mobilenet_v2,
    ),
    "ssd_resnet50_v1_fpn_keras": _resnet_v1(50),
    "ssd_resnet101_v1_fpn_keras": _resnet_v1(101),
    "ssd_resnet152_v1_fpn_keras": _resnet_v1(152),
    **{f"ssd_efficientnet-b{version}_bifpn_keras": _efficientnet(version) for version in efficientnet.SCALES},
}


def find_backbone(message: ssd_pb2.SsdFeatureExtractor, where: str) -> BackboneEntry:
    """Look the extractor's type up.

    Raises:
        ConfigError: for an unknown type.
    """
    if message.type not in BACKBONES:
        raise_first(extractor_problems(message, where))
    return BACKBONES[message.type]


def build_feature_maps(
    message: ssd_pb2.SsdFeatureExtractor, inputs: tf.Tensor, layers: NetworkLayers, where: str
) -> list[tf.Tensor]:
    """Add backbone and neck to a network.

    Args:
        message: the extractor.
        inputs: float32 [B, H, W, 3], preprocessed.
        layers: maker of layers; its hyperparameters are replaced.
        where: field path of the message, for errors.

    Returns:
        Feature maps, finest first.

    Raises:
        ConfigError: when the message contradicts the extractor's type.
    """
    raise_first(extractor_problems(message, where))
    entry = find_backbone(message, where)
    own = build_hyperparams(message.conv_hyperparams, f"{where}.conv_hyperparams")
    override = message.override_base_feature_extractor_hyperparams
    explicit = message.use_explicit_padding
    hyperparams = entry.overridden(own) if override else entry.hyperparams
    ends = entry.backbone(inputs, layers.under(hyperparams, explicit_padding=explicit), message)
    neck = NECKS[EXTRACTORS[message.type].neck]
    return neck(message, ends, layers.under(own, explicit_padding=explicit), where)


def _extra_layers(message: Any, ends: Ends, layers: NetworkLayers, where: str) -> list[tf.Tensor]:
    options = ExtraLayersOptions(
        num_layers=message.num_layers,
        depth_multiplier=message.depth_multiplier,
        min_depth=message.min_depth,
        use_depthwise=message.use_depthwise,
    )
    return extra_layers([ends[name] for name in EXTRACTORS[message.type].maps], layers, options)


def _fpn(message: Any, ends: Ends, layers: NetworkLayers, where: str) -> list[tf.Tensor]:
    pyramid = message.fpn
    depth = max(int(pyramid.additional_layer_depth * message.depth_multiplier), message.min_depth)
    options = FpnOptions(
        min_level=pyramid.min_level,
        max_level=pyramid.max_level,
        channels=depth,
        use_depthwise=message.use_depthwise,
    )
    return feature_pyramid(_by_level(ends), layers, options)


def _by_level(ends: Ends) -> dict[int, tf.Tensor]:
    return {int(name[-1]): features for name, features in ends.items() if name[-1].isdigit()}


def _bifpn(message: Any, ends: Ends, layers: NetworkLayers, where: str) -> list[tf.Tensor]:
    pyramid = message.bifpn
    if pyramid.combine_method == "attention":
        _logger.warning(
            "%s.bifpn.combine_method: attention adds inputs up unweighted, as in the Object Detection API,"
            " which normalises each weight by itself; fast_attention learns weights",
            where,
        )
    options = BifpnOptions(
        channels=max(pyramid.num_filters, message.min_depth),
        iterations=pyramid.num_iterations,
        min_level=pyramid.min_level,
        max_level=pyramid.max_level,
        combine_method=pyramid.combine_method,
    )
    return bidirectional_pyramid(_by_level(ends), layers, options)


Neck = Callable[[Any, Ends, NetworkLayers, str], list[tf.Tensor]]
NECKS: dict[str, Neck] = {"extra_layers": _extra_layers, "fpn": _fpn, "bifpn": _bifpn}
