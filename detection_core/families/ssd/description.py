"""Describe a one-stage detector for `validate`."""

from __future__ import annotations

import dataclasses

from detection_core.builders.backbones import BACKBONES
from detection_core.families.ssd.extractors import EXTRACTORS
from detection_core.families.ssd.model import AnchorLevel, SsdModel
from detection_core.protos.ssd_pb2 import Ssd


@dataclasses.dataclass(frozen=True, kw_only=True)
class SsdDescription:
    """The detector that a message describes.

    Attributes:
        feature_extractor: its type, as the config names it.
        family: of the backbone.
        neck: between backbone and heads.
        anchors: boxes predicted for one image.
        levels: feature maps with their anchors, finest first.
        parts: head and losses, by the arms of their oneofs.
    """

    feature_extractor: str
    family: str
    neck: str
    anchors: int
    levels: tuple[AnchorLevel, ...]
    parts: dict[str, str]

    def summary(self) -> str:
        """Name extractor, backbone and neck."""
        return f"{self.feature_extractor} ({self.family}, {self.neck})"

    def rows(self) -> list[tuple[str, str]]:
        """List the anchors of each feature map."""
        levels = [
            ("", f"{level.rows} x {level.columns} x {level.anchors / (level.rows * level.columns):g}")
            for level in self.levels
        ]
        return [("anchors", f"{self.anchors:,}"), *levels]


def describe_ssd(message: Ssd, detector: SsdModel) -> SsdDescription:
    """Describe a detector that was built from a message."""
    extractor, loss = message.feature_extractor.type, message.loss
    return SsdDescription(
        feature_extractor=extractor,
        family=BACKBONES[EXTRACTORS[extractor].backbone].family,
        neck=EXTRACTORS[extractor].neck,
        anchors=sum(level.anchors for level in detector.levels),
        levels=detector.levels,
        parts={
            "head": str(message.box_predictor.WhichOneof("box_predictor_oneof")),
            "losses": (
                f"{loss.classification_weight:g} x"
                f" {loss.classification_loss.WhichOneof('classification_loss')} +"
                f" {loss.localization_weight:g} x"
                f" {loss.localization_loss.WhichOneof('localization_loss')}"
            ),
        },
    )
