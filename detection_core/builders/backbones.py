"""Registry of backbones by name."""

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from detection_core.parts.backbones import (
    efficientnet,
    inception,
    mobiledet,
    mobilenet,
    mobilenet_v3,
    resnet_v1,
)
from detection_core.parts.backbones.base import Endpoints
from detection_core.parts.layers.layer_hyperparams import ChannelOptions, LayerHyperparams
from detection_core.parts.layers.network_layers import NetworkLayers


@dataclasses.dataclass(frozen=True, kw_only=True)
class BackboneShape(ChannelOptions):
    """The options of every backbone.

    Attributes:
        max_level: coarsest level needed.
        narrow_top: whether the neck adds separable convolutions; MobileNetV1 then has fewer channels in its
            last blocks.
    """

    max_level: int = 5
    narrow_top: bool = False


BuildBackbone = Callable[[tf.Tensor, NetworkLayers, BackboneShape], Endpoints]


@dataclasses.dataclass(frozen=True, kw_only=True)
class BackboneEntry:
    """A backbone.

    Attributes:
        family: the backbone's family.
        preprocessing: name in `parts.layers.preprocessing.PREPROCESSORS`.
        hyperparams: of the backbone, where the config does not override them.
        build: adds the backbone to a network, from its preprocessed input [B, H, W, 3].
        overrides_regularizer_only: overriding the hyperparameters replaces only the regularizer.
    """

    family: str
    preprocessing: str
    hyperparams: LayerHyperparams
    build: BuildBackbone
    overrides_regularizer_only: bool = False

    def overridden(self, own: LayerHyperparams) -> LayerHyperparams:
        """Return the hyperparameters after the message's own override the backbone's."""
        if self.overrides_regularizer_only:
            return dataclasses.replace(self.hyperparams, regularizer=own.regularizer)
        return own


def _scaled(
    backbone: Callable[[tf.Tensor, NetworkLayers, Any], Endpoints], options: Callable[..., Any], **given: Any
) -> BuildBackbone:
    """Return the function that adds a backbone with the channel counts of a shape, and `given` options."""

    def build(inputs: tf.Tensor, layers: NetworkLayers, shape: BackboneShape) -> Endpoints:
        made = options(depth_multiplier=shape.depth_multiplier, min_depth=shape.min_depth, **given)
        return backbone(inputs, layers, made)

    return build


def _mobiledet(hardware: str) -> BuildBackbone:
    def build(inputs: tf.Tensor, layers: NetworkLayers, shape: BackboneShape) -> Endpoints:
        return mobiledet.mobiledet(inputs, layers, hardware, depth_multiplier=shape.depth_multiplier)

    return build


def _efficientnet(version: int) -> BuildBackbone:
    def build(inputs: tf.Tensor, layers: NetworkLayers, shape: BackboneShape) -> Endpoints:
        max_level = min(shape.max_level, efficientnet.MAX_LEVEL)
        options = efficientnet.EfficientNetOptions(version=version, max_level=max_level)
        return efficientnet.efficientnet(inputs, layers, options)

    return build


def _mobile(
    family: str, build: BuildBackbone, hyperparams: LayerHyperparams = mobilenet.DEFAULT_HYPERPARAMS
) -> BackboneEntry:
    return BackboneEntry(family=family, preprocessing="unit_range", hyperparams=hyperparams, build=build)


BACKBONES: dict[str, BackboneEntry] = {
    "mobilenet_v1": _mobile(
        "mobilenet_v1",
        lambda inputs, layers, shape: mobilenet.mobilenet_v1(
            inputs, layers, shape, narrow_top=shape.narrow_top
        ),
    ),
    **{
        name: _mobile(name, backbone)
        for name, backbone in (
            ("mobilenet_v2", mobilenet.mobilenet_v2),
            ("mobilenet_edgetpu", mobilenet_v3.mobilenet_edgetpu),
            ("inception_v2", inception.inception_v2),
            ("inception_v3", inception.inception_v3),
        )
    },
    **{
        f"mobilenet_v3_{size}{kind}": _mobile(
            "mobilenet_v3",
            _scaled(
                mobilenet_v3.mobilenet_v3, mobilenet_v3.MobileNetV3Options, size=size, minimalistic=bool(kind)
            ),
        )
        for kind in ("", "_minimalistic")
        for size in mobilenet_v3.BLOCKS
    },
    **{
        f"mobiledet_{hardware}": _mobile("mobiledet", _mobiledet(hardware), mobiledet.DEFAULT_HYPERPARAMS)
        for hardware in mobiledet.ARCHITECTURES
    },
    **{
        f"resnet{depth}_v1": BackboneEntry(
            family="resnet_v1",
            preprocessing="channel_means",
            hyperparams=resnet_v1.DEFAULT_HYPERPARAMS,
            build=_scaled(resnet_v1.resnet_v1, resnet_v1.ResNetOptions, num_layers=depth),
        )
        for depth in resnet_v1.BLOCKS
    },
    **{
        f"efficientnet_b{version}": BackboneEntry(
            family=f"efficientnet_b{version}",
            preprocessing="standardize",
            hyperparams=efficientnet.DEFAULT_HYPERPARAMS,
            build=_efficientnet(version),
            overrides_regularizer_only=True,
        )
        for version in range(8)
    },
}
"""Backbones by name, as in `Extractor.backbone`; `register_backbone` adds to it."""


def register_backbone(name: str, entry: BackboneEntry) -> None:
    """Register an external backbone.

    `config.messages.extractors.register_extractor` makes it available to configs.

    Raises:
        ValueError: when the name is taken.
    """
    if name in BACKBONES:
        raise ValueError(f"expected a new name for a backbone, found {name!r}, which is taken; rename it")
    BACKBONES[name] = entry
