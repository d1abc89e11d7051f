"""The feature extractors of two-stage detectors: names and checks."""

import dataclasses
from collections.abc import Iterator

from detection_core.config.messages.extractors import level_problems
from detection_core.errors import Problem
from detection_core.protos.faster_rcnn_pb2 import FasterRcnnFeatureExtractor


@dataclasses.dataclass(frozen=True, kw_only=True)
class Extractor:
    """A feature extractor that a config can select.

    Attributes:
        backbone: the network that gives the features, a name in `network.BACKBONES`.
        strides: allowed values of `first_stage_features_stride`.
        pyramid: whether a feature pyramid follows the backbone.
    """

    backbone: str
    strides: tuple[int, ...] = (16,)
    pyramid: bool = False


_DEPTHS = (50, 101, 152)
_EITHER = (8, 16)
_NAMED = {
    **{
        f"faster_rcnn_resnet{depth}_keras": Extractor(backbone=f"resnet{depth}_v1", strides=_EITHER)
        for depth in _DEPTHS
    },
    "faster_rcnn_inception_resnet_v2_keras": Extractor(backbone="inception_resnet_v2", strides=_EITHER),
    # Of TensorFlow 1 alone.
    "faster_rcnn_inception_v2": Extractor(backbone="inception_v2"),
}
EXTRACTORS: dict[str, Extractor] = {
    **_NAMED,
    # The strides of a pyramid follow from its levels; the field has no effect.
    **{
        f"faster_rcnn_resnet{depth}_fpn_keras": Extractor(
            backbone=f"resnet{depth}_v1", strides=_EITHER, pyramid=True
        )
        for depth in _DEPTHS
    },
}
"""Every extractor, by `feature_extractor.type`."""

NAMED_EXTRACTORS = tuple(_NAMED)
"""Extractors that TensorFlow 1 also had, with known checkpoint names."""


def has_pyramid(message: FasterRcnnFeatureExtractor) -> bool:
    """Return whether the extractor has a pyramid; False for an unknown one."""
    return message.type in EXTRACTORS and EXTRACTORS[message.type].pyramid


def pyramid_levels(message: FasterRcnnFeatureExtractor) -> range:
    """Return the levels of an extractor with a pyramid, finest first: 2 to 6 if the message has none."""
    if not message.HasField("fpn"):
        return range(2, 7)
    return range(message.fpn.min_level, message.fpn.max_level + 1)


def strides(message: FasterRcnnFeatureExtractor) -> list[int]:
    """Return the strides of the feature maps in pixels, finest first."""
    if not has_pyramid(message):
        return [message.first_stage_features_stride]
    return [2**level for level in pyramid_levels(message)]


def extractor_problems(message: FasterRcnnFeatureExtractor, path: str) -> Iterator[Problem]:
    """Find fields that the extractor does not have; an unknown type is reported elsewhere."""
    entry = EXTRACTORS.get(message.type)
    if entry is None:
        return
    if message.first_stage_features_stride not in entry.strides:
        allowed = " or ".join(map(str, entry.strides))
        text = f"expected {allowed}, which {message.type} has, found {message.first_stage_features_stride}"
        yield Problem(path=f"{path}.first_stage_features_stride", message=f"{text}; change it")
    if entry.pyramid:
        yield from _pyramid(message, path)
        return
    for name in ("conv_hyperparams", "override_base_feature_extractor_hyperparams", "fpn"):
        if message.HasField(name):
            near = f"faster_rcnn_{entry.backbone.removesuffix('_v1')}_fpn_keras"
            use = near if near in EXTRACTORS else "faster_rcnn_resnet50_fpn_keras"
            text = f"expected none, as {message.type} has no pyramid, found it; remove it or use {use}"
            yield Problem(path=f"{path}.{name}", message=text)


def _pyramid(message: FasterRcnnFeatureExtractor, path: str) -> Iterator[Problem]:
    if not message.HasField("conv_hyperparams"):
        text = "expected the hyperparameters of the pyramid's convolutions, found none; set them"
        yield Problem(path=f"{path}.conv_hyperparams", message=text)
    levels = pyramid_levels(message)
    yield from level_problems((levels.start, levels.stop - 1), f"{path}.fpn", least=2, several=False)
