"""Describe a CenterNet for `validate`."""

from __future__ import annotations

import dataclasses

from detection_core.families.center_net.extractors import EXTRACTORS, STRIDE
from detection_core.families.center_net.model import CenterNetModel
from detection_core.protos.center_net_pb2 import CenterNet


@dataclasses.dataclass(frozen=True, kw_only=True)
class CenterNetDescription:
    """The detector that a message describes.

    Attributes:
        feature_extractor: its type, as the config names it.
        backbone: its kind.
        heatmap: rows and columns of the heatmaps.
        keypoints: name of a keypoint task -> number of its keypoints.
        parts: heads and losses.
    """

    feature_extractor: str
    backbone: str
    heatmap: tuple[int, int]
    keypoints: dict[str, int]
    parts: dict[str, str]

    def summary(self) -> str:
        """Name extractor and backbone."""
        return f"{self.feature_extractor} ({self.backbone})"

    def rows(self) -> list[tuple[str, str]]:
        """Say the size of the heatmaps, and the keypoints of each task."""
        rows, columns = self.heatmap
        return [
            ("heatmap", f"{rows} x {columns}, without suppression"),
            *(("keypoints", f"{count} of {name}") for name, count in self.keypoints.items()),
        ]


def describe_center_net(message: CenterNet, detector: CenterNetModel) -> CenterNetDescription:
    """Describe a detector that was built from a message."""
    extractor, parts = message.feature_extractor.type, detector.parts
    entry = EXTRACTORS[extractor]
    centers, boxes = message.object_center_params, message.object_detection_task
    rows, columns = parts.input_size
    return CenterNetDescription(
        feature_extractor=extractor,
        backbone=" and ".join(name for name in (entry.backbone, entry.neck) if name),
        heatmap=(rows // STRIDE, columns // STRIDE),
        keypoints={task.name: len(task.indices) for task in parts.keypoints},
        parts={
            "heads": ", ".join(head.name for head in parts.heads),
            "losses": (
                f"{centers.object_center_loss_weight:g} x"
                f" {centers.classification_loss.WhichOneof('classification_loss')} +"
                f" {boxes.task_loss_weight:g} x {boxes.localization_loss.WhichOneof('localization_loss')}"
            ),
        },
    )
