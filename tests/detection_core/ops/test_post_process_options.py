import dataclasses
import re

import pytest

from detection_core.allowed_values import OPERATION
from detection_core.errors import ExportError
from detection_core.ops.post_process_options import PostProcessOptions
from tests.support.cases import refused

LIMITS = {"max_detections": 10, "nms_score_threshold": 0.0, "nms_iou_threshold": 0.5, "num_classes": 3}
OPTIONS = PostProcessOptions(y_scale=10.0, x_scale=10.0, h_scale=5.0, w_scale=5.0, **LIMITS)


def test_an_attribute_that_the_operation_does_not_take_is_refused_by_name():
    for name, value, refusal in (
        ("max_detections", 0, "expected 1 or more, found 0; change export.max_detections"),
        ("max_classes_per_detection", 0, "expected 1 or more, found 0; change classes_per_detection"),
        ("detections_per_class", 0, "found 0; change max_detections_per_class of"),
        ("nms_score_threshold", -0.1, "expected 0 or more, found -0.1; change the score threshold"),
        ("nms_score_threshold", float("nan"), "expected 0 or more, found nan"),
        ("nms_iou_threshold", 0.0, "expected a number above 0, up to 1, found 0; change the IoU threshold"),
        ("nms_iou_threshold", 1.1, "found 1.1; change the IoU threshold"),
        ("num_classes", 0, "found 0; change the config's num_classes"),
        ("y_scale", 0.0, "expected a number above 0, found 0; change the box coder's scales"),
        ("w_scale", float("inf"), "found inf; change the box coder's scales"),
    ):
        with pytest.raises(ExportError, match=f"^{OPERATION}.{name}: .*{re.escape(refusal)}"):
            dataclasses.replace(OPTIONS, **{name: value})
    # Every number among them has a range.
    for field in dataclasses.fields(OPTIONS):
        if not isinstance(getattr(OPTIONS, field.name), bool):
            refused(ExportError, field.name, dataclasses.replace, OPTIONS, **{field.name: float("nan")})
