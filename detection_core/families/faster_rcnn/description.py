"""Describe a two-stage detector for `validate`."""

from __future__ import annotations

import dataclasses

from detection_core.families.faster_rcnn.extractors import EXTRACTORS
from detection_core.families.faster_rcnn.model import FasterRcnnModel
from detection_core.families.faster_rcnn.stage_networks import BACKBONES
from detection_core.protos.faster_rcnn_pb2 import FasterRcnn


@dataclasses.dataclass(frozen=True, kw_only=True)
class FasterRcnnDescription:
    """The detector that a message describes.

    Attributes:
        feature_extractor: its type, as the config names it.
        family: of the backbone.
        stages: 1 for proposals, 2 for boxes, 3 for masks too.
        stride: of the features from which regions are cropped, pixels.
        anchors_per_location: anchors at each cell of these features.
        proposals: most proposals of an image.
        parts: head and losses.
    """

    feature_extractor: str
    family: str
    stages: int
    stride: int
    anchors_per_location: int
    proposals: int
    parts: dict[str, str]

    def summary(self) -> str:
        """Name extractor, backbone and stages."""
        stages = "1 stage" if self.stages == 1 else f"{self.stages} stages"
        return f"{self.feature_extractor} ({self.family}, {stages})"

    def rows(self) -> list[tuple[str, str]]:
        """List the anchors and the proposals."""
        return [
            ("anchors", f"{self.anchors_per_location} every {self.stride} pixels"),
            ("proposals", f"up to {self.proposals:,}"),
        ]


def describe_faster_rcnn(message: FasterRcnn, detector: FasterRcnnModel) -> FasterRcnnDescription:
    """Describe a detector that was built from a message."""
    extractor = message.feature_extractor.type
    loss = message.second_stage_classification_loss.WhichOneof("classification_loss") or "weighted_softmax"
    first = (
        f"{message.first_stage_objectness_loss_weight:g} x weighted_softmax +"
        f" {message.first_stage_localization_loss_weight:g} x weighted_smooth_l1"
    )
    second = (
        f"{message.second_stage_classification_loss_weight:g} x {loss} +"
        f" {message.second_stage_localization_loss_weight:g} x weighted_smooth_l1"
    )
    parts = {"first stage": first}
    if detector.stages > 1:
        parts |= {
            "head": str(message.second_stage_box_predictor.WhichOneof("box_predictor_oneof")),
            "losses": second,
        }
    return FasterRcnnDescription(
        feature_extractor=extractor,
        family=BACKBONES[EXTRACTORS[extractor].backbone].family,
        stages=detector.stages,
        stride=message.feature_extractor.first_stage_features_stride,
        anchors_per_location=detector.parts.proposing.generator.num_anchors_per_location()[0],
        proposals=message.first_stage_max_proposals,
        parts=parts,
    )
