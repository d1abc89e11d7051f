"""Build feature maps from SsdFeatureExtractor messages: a backbone and a neck."""

from __future__ import annotations

import logging
from collections.abc import Callable

import tensorflow as tf

from detection_core.builders.backbones import BACKBONES, BackboneEntry, BackboneShape
from detection_core.builders.heads import build_hyperparams
from detection_core.errors import ConfigError
from detection_core.families.ssd.extractors import EXTRACTORS
from detection_core.parts.backbones.base import Endpoints
from detection_core.parts.layers.network_layers import NetworkLayers
from detection_core.parts.necks.bifpn import BifpnOptions, bidirectional_pyramid
from detection_core.parts.necks.fpn import ExtraLayersOptions, FpnOptions, extra_layers, feature_pyramid
from detection_core.protos.ssd_pb2 import SsdFeatureExtractor

_logger = logging.getLogger(__name__)


def find_backbone(message: SsdFeatureExtractor, where: str) -> BackboneEntry:
    """Find the extractor's backbone.

    Raises:
        ConfigError: when a registered extractor names an unregistered backbone. The check cannot detect this,
            because backbones need TensorFlow.
    """
    name = EXTRACTORS[message.type].backbone
    if name not in BACKBONES:
        raise ConfigError(
            f"expected a backbone {name!r}, found none of that name; call"
            " detection_core.builders.backbones.register_backbone",
            where=f"{where}.type",
        )
    return BACKBONES[name]


def build_feature_maps(
    message: SsdFeatureExtractor, inputs: tf.Tensor, layers: NetworkLayers, where: str
) -> list[tf.Tensor]:
    """Return the feature maps of backbone and neck, finest first; errors are those of `find_backbone`.

    `inputs` are float32 [B, H, W, 3], preprocessed. The hyperparameters of `layers` are replaced.
    """
    entry = find_backbone(message, where)
    own = build_hyperparams(message.conv_hyperparams)
    override = message.override_base_feature_extractor_hyperparams
    explicit = message.use_explicit_padding
    hyperparams = entry.overridden(own) if override else entry.hyperparams
    neck = EXTRACTORS[message.type].neck
    shape = BackboneShape(
        depth_multiplier=message.depth_multiplier,
        min_depth=message.min_depth,
        max_level=message.bifpn.max_level,
        narrow_top=message.use_depthwise and neck == "fpn",
    )
    ends = entry.build(inputs, layers.under(hyperparams, explicit_padding=explicit), shape)
    return NECKS[neck](message, ends, layers.under(own, explicit_padding=explicit), where)


def _extra_layers(
    message: SsdFeatureExtractor, ends: Endpoints, layers: NetworkLayers, where: str
) -> list[tf.Tensor]:
    extractor = EXTRACTORS[message.type]
    first, *others = extractor.maps
    finest = ends.expanded[first] if extractor.expanded else ends.levels[first]
    options = ExtraLayersOptions(
        channels=extractor.extra,
        num_layers=message.num_layers,
        depth_multiplier=message.depth_multiplier,
        min_depth=message.min_depth,
        use_depthwise=message.use_depthwise,
    )
    return extra_layers([finest, *(ends.levels[level] for level in others)], layers, options)


def _fpn(message: SsdFeatureExtractor, ends: Endpoints, layers: NetworkLayers, where: str) -> list[tf.Tensor]:
    pyramid = message.fpn
    depth = max(int(pyramid.additional_layer_depth * message.depth_multiplier), message.min_depth)
    options = FpnOptions(
        min_level=pyramid.min_level,
        max_level=pyramid.max_level,
        channels=depth,
        use_depthwise=message.use_depthwise,
    )
    return feature_pyramid(ends.levels, layers, options)


def _bifpn(
    message: SsdFeatureExtractor, ends: Endpoints, layers: NetworkLayers, where: str
) -> list[tf.Tensor]:
    pyramid = message.bifpn
    if pyramid.combine_method == "attention":
        _logger.warning(
            "%s.bifpn.combine_method: attention is an unweighted sum, as in the Object Detection API,"
            " which normalises each weight separately; fast_attention learns weights",
            where,
        )
    options = BifpnOptions(
        channels=max(pyramid.num_filters, message.min_depth),
        iterations=pyramid.num_iterations,
        min_level=pyramid.min_level,
        max_level=pyramid.max_level,
        combine_method=pyramid.combine_method,
    )
    return bidirectional_pyramid(ends.levels, layers, options)


Neck = Callable[[SsdFeatureExtractor, Endpoints, NetworkLayers, str], list[tf.Tensor]]
NECKS: dict[str, Neck] = {"extra_layers": _extra_layers, "fpn": _fpn, "bifpn": _bifpn}
