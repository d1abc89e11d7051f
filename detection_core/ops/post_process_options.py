"""Attributes of the operation TFLite_Detection_PostProcess."""

import dataclasses
import math
from collections.abc import Mapping

from detection_core.allowed_values import NOT_NEGATIVE, OPERATION, POSITIVE, POSITIVE_FRACTION, Range
from detection_core.errors import ExportError

_COUNT = Range(1, math.inf, "1 or more")
_SCALE = (POSITIVE, "the box coder's scales")
# Ranges of LiteRT's kernel (tensorflow/lite/kernels/detection_postprocess.cc, whose errors name no field),
# and the setting behind each attribute.
_ATTRIBUTES: Mapping[str, tuple[Range, str]] = {
    "max_detections": (_COUNT, "export.max_detections"),
    "max_classes_per_detection": (_COUNT, "classes_per_detection"),
    "detections_per_class": (_COUNT, "max_detections_per_class of the config's suppression"),
    "nms_score_threshold": (NOT_NEGATIVE, "the score threshold of the config's suppression"),
    "nms_iou_threshold": (POSITIVE_FRACTION, "the IoU threshold of the config's suppression"),
    "num_classes": (_COUNT, "the config's num_classes"),
    "y_scale": _SCALE,
    "x_scale": _SCALE,
    "h_scale": _SCALE,
    "w_scale": _SCALE,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class PostProcessOptions:
    """Attributes of the operation; box codes are divided by the scales.

    A value that the operation does not accept raises ExportError.

    Attributes:
        max_detections: boxes that it keeps, and rows of the file's outputs.
        max_classes_per_detection: classes reported per box, one row each, if use_regular_nms is off.
        detections_per_class: boxes kept per class, if use_regular_nms is on. The converter drops it, and the
            operation then keeps up to 100.
        use_regular_nms: suppress class by class. Off: boxes of all classes suppress each other, which is
            faster. If on, LiteRT's kernel drops a class with several threads and more than two classes:
            `tflite_post_process.kernel_is_right`.
        nms_score_threshold: least score; minus infinity: every box is kept.
        nms_iou_threshold: overlap from which the box with the lower score is removed.
        num_classes: without background.
        y_scale: of the box coder.
        x_scale: of the box coder.
        h_scale: of the box coder.
        w_scale: of the box coder.
    """

    max_detections: int
    max_classes_per_detection: int = 1
    detections_per_class: int = 100
    use_regular_nms: bool = False
    nms_score_threshold: float
    nms_iou_threshold: float
    num_classes: int
    y_scale: float
    x_scale: float
    h_scale: float
    w_scale: float

    def __post_init__(self) -> None:
        for name, (allowed, source) in _ATTRIBUTES.items():
            value = getattr(self, name)
            every_box = name == "nms_score_threshold" and value == -math.inf
            if not (allowed.holds(value) and math.isfinite(value)) and not every_box:
                raise ExportError(
                    f"expected {allowed.text}, found {value:g}; change {source}", where=f"{OPERATION}.{name}"
                )

    @property
    def rows(self) -> int:
        """Number of rows of the operation itself."""
        return self.max_detections * (1 if self.use_regular_nms else self.max_classes_per_detection)

    @property
    def scales(self) -> tuple[float, float, float, float]:
        """The box coder's scales of y, x, height and width."""
        return self.y_scale, self.x_scale, self.h_scale, self.w_scale
