"""Describe an EfficientDet for `validate`."""

from __future__ import annotations

import dataclasses

from detection_core.families.efficientdet.model import EfficientDetModel
from detection_core.families.efficientdet.segmentation import HEAD


@dataclasses.dataclass(frozen=True, kw_only=True)
class EfficientDetDescription:
    """The detector that a message describes.

    Attributes:
        name: of the model that supplies the sizes.
        backbone: its name.
        anchors: boxes predicted for one image.
        levels: level, rows and columns of each map, finest first.
        anchors_per_location: of every map.
        parts: feature network, head, losses and suppression in words.
    """

    name: str
    backbone: str
    anchors: int
    levels: tuple[tuple[int, int, int], ...]
    anchors_per_location: int
    parts: dict[str, str]

    def summary(self) -> str:
        """Name model and backbone."""
        return f"{self.name} ({self.backbone}, {self.parts['pyramid']})"

    def rows(self) -> list[tuple[str, str]]:
        """List the anchors of each map."""
        levels = [
            ("", f"{rows} x {columns} x {self.anchors_per_location}") for _, rows, columns in self.levels
        ]
        return [("anchors", f"{self.anchors:,}"), *levels]


def describe_efficientdet(detector: EfficientDetModel) -> EfficientDetDescription:
    """Describe a detector."""
    settings, suppression = detector.parts.settings, detector.parts.suppression
    losses = [f"focal + {settings.box_loss_weight:g} x huber"]
    if settings.iou_loss_type:
        losses.append(f"{settings.iou_loss_weight:g} x {settings.iou_loss_type}")
    head = f"{settings.box_class_repeats} x {settings.fpn_num_filters}, {settings.act_type}"
    if HEAD in settings.heads:
        head += f"; segmentation into {settings.seg_num_classes}"
        losses.append("cross entropy of pixels")
    shapes = settings.map_shapes(detector.parts.input_size)
    return EfficientDetDescription(
        name=settings.name,
        backbone=settings.backbone_name,
        anchors=len(detector.anchors),
        levels=tuple((level, *shape) for level, shape in zip(settings.levels, shapes, strict=True)),
        anchors_per_location=settings.anchors_per_location,
        parts={
            "pyramid": (
                f"{settings.fpn_cell_repeats} x {len(settings.nodes)} nodes of {settings.fpn_num_filters},"
                f" {settings.fpn_weight_method}"
            ),
            "head": head,
            "losses": " + ".join(losses),
            "suppression": f"{suppression.mode}, {'gaussian' if suppression.soft else 'hard'}",
        },
    )
