"""SsdFeatureExtractor messages -> the feature maps of a network."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from detection_core.builders.hyperparams import build_hyperparams
from detection_core.errors import ConfigError
from detection_core.models.backbones import efficientnet, mobilenet_v1, mobilenet_v2, resnet_v1
from detection_core.models.hyperparams import LayerHyperparams
from detection_core.models.necks.bifpn import BifpnOptions, bidirectional_pyramid
from detection_core.models.necks.bifpn_fusion import COMBINE_METHODS
from detection_core.models.necks.extra_layers import ExtraLayersOptions, extra_layers
from detection_core.models.necks.fpn import FpnOptions, feature_pyramid
from detection_core.models.network_layers import NetworkLayers
from detection_core.protos import ssd_pb2

_log = logging.getLogger(__name__)

Ends = Mapping[str, tf.Tensor]


@dataclasses.dataclass(frozen=True, kw_only=True)
class BackboneEntry:
    """A feature extractor that configs name by `type`.

    Attributes:
        family: the backbone's family.
        neck: "extra_layers", "fpn" or "bifpn".
        preprocessing: name in `models.preprocessing.PREPROCESSORS`.
        hyperparams: of the backbone, where the config does not override them.
        backbone: adds the backbone to a network: (inputs, layers, message) -> named features.
        maps: names of the features that the neck of an extra_layers extractor starts with.
        fixed: fields of the message that have to keep their defaults, as the extractor has no such option.
        overrides_penalty_only: overriding the hyperparameters replaces the penalty and nothing else.
    """

    family: str
    neck: str
    preprocessing: str
    hyperparams: LayerHyperparams
    backbone: Callable[[tf.Tensor, NetworkLayers, Any], Ends]
    maps: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
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
        neck="fpn",
        preprocessing="channel_means",
        hyperparams=resnet_v1.DEFAULT_HYPERPARAMS,
        backbone=backbone,
        fixed=("use_depthwise", "use_explicit_padding"),
    )


def _efficientnet(version: int) -> BackboneEntry:
    def backbone(inputs: tf.Tensor, layers: NetworkLayers, message: Any) -> Ends:
        max_level = min(message.bifpn.max_level, efficientnet.MAX_LEVEL)
        options = efficientnet.EfficientNetOptions(version=version, max_level=max_level)
        return efficientnet.efficientnet(inputs, layers, options)

    return BackboneEntry(
        family=f"efficientnet_b{version}",
        neck="bifpn",
        preprocessing="standardize",
        hyperparams=efficientnet.DEFAULT_HYPERPARAMS,
        backbone=backbone,
        fixed=("depth_multiplier", "use_depthwise", "use_explicit_padding"),
        overrides_penalty_only=True,
    )


BACKBONES: dict[str, BackboneEntry] = {
    "ssd_mobilenet_v1_keras": BackboneEntry(
        family="mobilenet_v1",
        neck="extra_layers",
        preprocessing="unit_range",
        hyperparams=mobilenet_v1.DEFAULT_HYPERPARAMS,
        backbone=_mobilenet_v1,
        maps=("level_4", "level_5"),
    ),
    "ssd_mobilenet_v1_fpn_keras": BackboneEntry(
        family="mobilenet_v1",
        neck="fpn",
        preprocessing="unit_range",
        hyperparams=mobilenet_v1.DEFAULT_HYPERPARAMS,
        backbone=_mobilenet_v1_of_pyramid,
    ),
    "ssd_mobilenet_v2_keras": BackboneEntry(
        family="mobilenet_v2",
        neck="extra_layers",
        preprocessing="unit_range",
        hyperparams=mobilenet_v2.DEFAULT_HYPERPARAMS,
        backbone=_mobilenet_v2,
        maps=("level_4_expanded", "level_5"),
    ),
    "ssd_mobilenet_v2_fpn_keras": BackboneEntry(
        family="mobilenet_v2",
        neck="fpn",
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
    entry = BACKBONES.get(message.type)
    if entry is not None:
        return entry
    keras_type = f"{message.type}_keras"
    advice = f"TensorFlow 2's name is {keras_type}" if keras_type in BACKBONES else "use one of these"
    raise ConfigError(
        f"expected one of {', '.join(BACKBONES)}, found {message.type!r}; {advice}", where=f"{where}.type"
    )


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
    entry = find_backbone(message, where)
    _check_fixed(entry, message, where)
    own = build_hyperparams(message.conv_hyperparams, f"{where}.conv_hyperparams")
    override = message.override_base_feature_extractor_hyperparams
    explicit = message.use_explicit_padding
    hyperparams = entry.overridden(own) if override else entry.hyperparams
    ends = entry.backbone(inputs, layers.under(hyperparams, explicit_padding=explicit), message)
    neck = NECKS[entry.neck]
    return neck(entry, message, ends, layers.under(own, explicit_padding=explicit), where)


def _check_fixed(entry: BackboneEntry, message: ssd_pb2.SsdFeatureExtractor, where: str) -> None:
    for name in entry.fixed:
        found, default = getattr(message, name), message.DESCRIPTOR.fields_by_name[name].default_value
        if found != default:
            raise ConfigError(
                f"expected {default}, as {message.type} has no such option, found {found}; remove the field",
                where=f"{where}.{name}",
            )


def _extra_layers(
    entry: BackboneEntry, message: Any, ends: Ends, layers: NetworkLayers, where: str
) -> list[tf.Tensor]:
    most = len(entry.maps) + 4
    if not 1 <= message.num_layers <= most:
        raise ConfigError(
            f"expected 1 to {most} feature maps, found {message.num_layers}; change num_layers",
            where=f"{where}.num_layers",
        )
    options = ExtraLayersOptions(
        num_layers=message.num_layers,
        depth_multiplier=message.depth_multiplier,
        min_depth=message.min_depth,
        use_depthwise=message.use_depthwise,
    )
    return extra_layers([ends[name] for name in entry.maps], layers, options)


def _fpn(
    entry: BackboneEntry, message: Any, ends: Ends, layers: NetworkLayers, where: str
) -> list[tf.Tensor]:
    pyramid = message.fpn
    if not 2 <= pyramid.min_level <= min(5, pyramid.max_level):
        raise ConfigError(
            f"expected 2 <= min_level <= 5 and min_level <= max_level, found {pyramid.min_level} and"
            f" {pyramid.max_level}; change the levels",
            where=f"{where}.fpn.min_level",
        )
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


def _bifpn(
    entry: BackboneEntry, message: Any, ends: Ends, layers: NetworkLayers, where: str
) -> list[tf.Tensor]:
    pyramid = message.bifpn
    _check_bifpn(pyramid, f"{where}.bifpn")
    options = BifpnOptions(
        channels=max(pyramid.num_filters, message.min_depth),
        iterations=pyramid.num_iterations,
        min_level=pyramid.min_level,
        max_level=pyramid.max_level,
        combine_method=pyramid.combine_method,
    )
    return bidirectional_pyramid(_by_level(ends), layers, options)


def _check_bifpn(pyramid: Any, where: str) -> None:
    low, high = pyramid.min_level, pyramid.max_level
    if not 1 <= low <= efficientnet.MAX_LEVEL or low >= high:
        raise ConfigError(
            f"expected 1 <= min_level <= {efficientnet.MAX_LEVEL} and min_level < max_level, found {low} and"
            f" {high}; change the levels",
            where=f"{where}.min_level",
        )
    for name in ("num_iterations", "num_filters"):
        if getattr(pyramid, name) < 1:
            raise ConfigError(
                f"expected a positive number, found {getattr(pyramid, name)}; EfficientDet-D0 has"
                " num_iterations: 3 and num_filters: 64",
                where=f"{where}.{name}",
            )
    if pyramid.combine_method not in COMBINE_METHODS:
        raise ConfigError(
            f"expected one of {', '.join(COMBINE_METHODS)}, found {pyramid.combine_method!r}; correct the"
            " name",
            where=f"{where}.combine_method",
        )
    if pyramid.combine_method == "attention":
        _log.warning(
            "%s.combine_method: attention adds inputs up unweighted, as in the Object Detection API, which"
            " normalises each weight by itself; fast_attention learns weights",
            where,
        )


Neck = Callable[[BackboneEntry, Any, Ends, NetworkLayers, str], list[tf.Tensor]]
NECKS: dict[str, Neck] = {"extra_layers": _extra_layers, "fpn": _fpn, "bifpn": _bifpn}
