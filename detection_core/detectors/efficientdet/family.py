"""The record of the family; see `detectors.family`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from detection_core.config.messages.efficientdet import input_size
from detection_core.detectors.family import AnchorSupport, Family, FamilyDescription

if TYPE_CHECKING:
    import numpy as np

    from detection_core.detectors.base import Detector


def _build(message: Any, where: str, seed: int | None) -> Detector:
    from detection_core.detectors.efficientdet.build import build_efficientdet

    return build_efficientdet(message, where, seed)


def _describe(message: Any, detector: Any) -> FamilyDescription:
    from detection_core.detectors.efficientdet.description import describe_efficientdet

    del message  # Its defaults are the named model's.
    return describe_efficientdet(detector)


def _anchor_boxes(message: Any, where: str) -> np.ndarray:
    from detection_core.config.messages.efficientdet import settings_of
    from detection_core.detectors.efficientdet.anchors import normalized_anchors

    del where  # Nothing is refused.
    return normalized_anchors(settings_of(message))


FAMILY = Family(
    name="efficientdet",
    build=_build,
    describe=_describe,
    loss_names={
        "Loss/classification_loss": "class",
        "Loss/localization_loss": "box",
        "Loss/iou_loss": "iou",
        "Loss/segmentation_loss": "seg",
        "Loss/regularization_loss": "reg",
    },
    input_size=input_size,
    other_sizes=True,
    anchors=AnchorSupport(boxes=_anchor_boxes),
)
