"""Prediction heads of one-stage detectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from detection_core.config.messages.anchors import anchors_per_location
from detection_core.config.problems import Problem
from detection_core.protos.box_coder_pb2 import BoxCoder
from detection_core.protos.ssd_pb2 import Ssd

_WEIGHT_SHARED = "weight_shared_convolutional_box_predictor"
_CODE_SIZES = {"faster_rcnn_box_coder": 4, "mean_stddev_box_coder": 4, "square_box_coder": 3}


def code_size(coder: BoxCoder) -> int:
    """Return how many numbers a box code has; 0 where no coder is set."""
    if coder.HasField("keypoint_box_coder"):
        return 4 + 2 * coder.keypoint_box_coder.num_keypoints
    return _CODE_SIZES.get(str(coder.WhichOneof("box_coder_oneof")), 0)


def box_predictor_problems(ssd: Ssd, path: str) -> Iterator[Problem]:
    """Find what keeps a head from being made for its anchors and box coder.

    Args:
        ssd: the model.
        path: its field path.
    """
    arm = ssd.box_predictor.WhichOneof("box_predictor_oneof")
    if arm not in ("convolutional_box_predictor", _WEIGHT_SHARED):
        return
    head: Any = getattr(ssd.box_predictor, str(arm))
    path = f"{path}.box_predictor.{arm}"
    wanted = code_size(ssd.box_coder)
    if wanted and head.box_code_size != wanted:
        text = f"expected {wanted}, the size of the box coder's codes, found {head.box_code_size:,}"
        yield Problem(path=f"{path}.box_code_size", message=f"{text}; set box_code_size: {wanted}")
    if arm == _WEIGHT_SHARED:
        yield from _weight_shared(ssd, head, path)


def _weight_shared(ssd: Ssd, head: Any, path: str) -> Iterator[Problem]:
    if head.num_layers_before_predictor > 0 and head.depth <= 0:
        text = (
            f"expected a positive number of channels for the {head.num_layers_before_predictor} layers before"
            f" the predictor, found {head.depth}; set depth"
        )
        yield Problem(path=f"{path}.depth", message=text)
    counts = sorted(set(anchors_per_location(ssd.anchor_generator)))
    if len(counts) > 1:
        text = (
            "expected as many anchors at each place of every feature map, as they share the head's weights,"
            f" found {' and '.join(map(str, counts[:3]))}; set reduce_boxes_in_lowest_layer: false, or use"
            " convolutional_box_predictor"
        )
        yield Problem(path=path, message=text)
