"""Build and describe detectors from EfficientDet messages."""

from detection_core.detectors.family import FamilyDescription
from detection_core.families.efficientdet.anchors import anchors_px
from detection_core.families.efficientdet.checkpoint_names import automl_variables, regularized
from detection_core.families.efficientdet.model import EfficientDetModel, EfficientDetParts
from detection_core.families.efficientdet.network import HEAD, build_network
from detection_core.families.efficientdet.post_process import SuppressionOptions
from detection_core.families.efficientdet.settings import settings_of
from detection_core.parts.layers.layer_hyperparams import Regularizer
from detection_core.parts.layers.layer_names import parse_variable_name
from detection_core.protos.efficientdet_pb2 import EfficientDet
from detection_core.structures import COLOURS

HARD_THRESHOLD = 0.5
SOFT_SIGMA = 0.5
SOFT_LEAST_SCORE = 0.001


def build_efficientdet(
    message: EfficientDet, where: str, seed: int | None = 0, channels: int = COLOURS
) -> EfficientDetModel:
    """Build the detector of a checked message; see `Family.build`."""
    del where  # Nothing is refused here.
    settings = settings_of(message)
    size = settings.image_size
    network = build_network(settings, size, seed, channels)
    variables = automl_variables(network, settings)
    frozen = {parse_variable_name(found.variable).key for found in variables if settings.freezes(found.name)}
    decayed = {parse_variable_name(found.variable).key for found in regularized(variables)}
    decay = Regularizer(kind="l2", weight=settings.weight_decay)
    parts = EfficientDetParts(
        settings=settings,
        input_size=size,
        anchors_px=anchors_px(settings, size),
        suppression=suppression_options(message.nms_configs),
        regularizers={key: decay for key in sorted(decayed - frozen)},
        frozen=frozenset(frozen),
    )
    return EfficientDetModel(network, parts)


def suppression_options(message: EfficientDet.NonMaxSuppression) -> SuppressionOptions:
    """Read the suppression settings; 0 has the same meaning as in google/automl."""
    soft = message.method == "gaussian"
    return SuppressionOptions(
        mode=message.mode,
        soft=soft,
        iou_threshold=message.iou_thresh or HARD_THRESHOLD,
        score_threshold=message.score_thresh or (SOFT_LEAST_SCORE if soft else -float("inf")),
        sigma=message.sigma or SOFT_SIGMA,
        max_inputs=message.max_nms_inputs,
        max_detections=message.max_output_size,
    )


def describe_efficientdet(detector: EfficientDetModel) -> FamilyDescription:
    """Describe a detector."""
    settings, suppression = detector.parts.settings, detector.parts.suppression
    losses = [f"focal + {settings.box_loss_weight:g} x huber"]
    if settings.iou_loss_type:
        losses.append(f"{settings.iou_loss_weight:g} x {settings.iou_loss_type}")
    head = f"{settings.box_class_repeats} x {settings.fpn_num_filters}, {settings.act_type}"
    if HEAD in settings.heads:
        head += f"; segmentation into {settings.seg_num_classes}"
        losses.append("cross entropy of pixels")
    shapes, anchors = settings.map_shapes(detector.parts.input_size), len(detector.anchors)
    pyramid = (
        f"{settings.fpn_cell_repeats} x {len(settings.nodes)} nodes of {settings.fpn_num_filters},"
        f" {settings.fpn_weight_method}"
    )
    levels = [("", f"{rows} x {columns} x {settings.anchors_per_location}") for rows, columns in shapes]
    return FamilyDescription(
        summary=f"{settings.name} ({settings.backbone_name}, {pyramid})",
        rows=[("anchors", f"{anchors:,}"), *levels],
        data={
            "name": settings.name,
            "backbone": settings.backbone_name,
            "anchors": anchors,
            "levels": [(level, *shape) for level, shape in zip(settings.levels, shapes, strict=True)],
            "anchors_per_location": settings.anchors_per_location,
        },
        parts={
            "pyramid": pyramid,
            "head": head,
            "losses": " + ".join(losses),
            "suppression": f"{suppression.mode}, {'gaussian' if suppression.soft else 'hard'}",
        },
    )
