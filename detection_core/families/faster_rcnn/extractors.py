"""The feature extractors of two-stage detectors: names and checks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from detection_core.allowed_values import up_to
from detection_core.detectors.rules import Rules
from detection_core.errors import Problem
from detection_core.protos.faster_rcnn_pb2 import FasterRcnnFeatureExtractor


@dataclasses.dataclass(frozen=True, kw_only=True)
class Extractor:
    """A feature extractor that a config can select.

    Attributes:
        backbone: the network that gives the features, a name in `network.BACKBONES`.
        strides: allowed values of `first_stage_features_stride`.
    """

    backbone: str
    strides: tuple[int, ...] = (16,)


_RESNETS = {
    f"faster_rcnn_resnet{depth}_keras": Extractor(backbone=f"resnet{depth}_v1") for depth in (50, 101, 152)
}
EXTRACTORS: dict[str, Extractor] = {
    **_RESNETS,
    "faster_rcnn_inception_resnet_v2_keras": Extractor(backbone="inception_resnet_v2", strides=(8, 16)),
}
"""Every extractor, by `feature_extractor.type`."""

NAMED_EXTRACTORS = tuple(_RESNETS)
"""Extractors that TensorFlow 1 also had, with known checkpoint names."""


def backbone(extractor: str) -> str:
    """Return an extractor's backbone; "" for an unknown extractor."""
    return EXTRACTORS[extractor].backbone if extractor in EXTRACTORS else ""


def _problems(message: FasterRcnnFeatureExtractor, path: str) -> Iterator[Problem]:
    """Find a stride that the extractor does not have; an unknown type is reported elsewhere."""
    entry = EXTRACTORS.get(message.type)
    if entry is not None and message.first_stage_features_stride not in entry.strides:
        allowed = " or ".join(map(str, entry.strides))
        text = f"expected {allowed}, which {message.type} has, found {message.first_stage_features_stride}"
        yield Problem(path=f"{path}.first_stage_features_stride", message=f"{text}; change it")


_OF_A_PYRAMID = "only extractors with a pyramid have layers like this; none is built here: remove it"

EXTRACTOR_RULES: Mapping[str, Rules] = {
    "FasterRcnnFeatureExtractor": Rules(
        ranges={"first_stage_features_stride": up_to(64)},
        check=_problems,
        without_effect={
            "pad_to_multiple": "two-stage extractors of the Object Detection API do not read it",
        },
        refused={
            "conv_hyperparams": _OF_A_PYRAMID,
            "override_base_feature_extractor_hyperparams": _OF_A_PYRAMID,
            "fpn": "extractors with a pyramid are not built here; use faster_rcnn_resnet50_keras",
        },
    ),
}
