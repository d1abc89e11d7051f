"""BoxCoder messages to box coders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from detection_core.builders.oneof import build_oneof
from detection_core.parts.box_coders.base import BoxCoder
from detection_core.parts.box_coders.faster_rcnn import FasterRcnnBoxCoder
from detection_core.parts.box_coders.keypoint import KeypointBoxCoder
from detection_core.parts.box_coders.mean_stddev import MeanStddevBoxCoder
from detection_core.parts.box_coders.square import SquareBoxCoder
from detection_core.protos import (
    box_coder_pb2,
    faster_rcnn_box_coder_pb2,
    keypoint_box_coder_pb2,
    mean_stddev_box_coder_pb2,
    square_box_coder_pb2,
)


def _faster_rcnn(
    message: faster_rcnn_box_coder_pb2.FasterRcnnBoxCoder | keypoint_box_coder_pb2.KeypointBoxCoder,
) -> FasterRcnnBoxCoder:
    return FasterRcnnBoxCoder(
        y_scale=message.y_scale,
        x_scale=message.x_scale,
        height_scale=message.height_scale,
        width_scale=message.width_scale,
    )


def _keypoint(message: keypoint_box_coder_pb2.KeypointBoxCoder) -> BoxCoder:
    return KeypointBoxCoder(num_keypoints=message.num_keypoints, box_coder=_faster_rcnn(message))


def _mean_stddev(message: mean_stddev_box_coder_pb2.MeanStddevBoxCoder) -> BoxCoder:
    return MeanStddevBoxCoder(stddev=message.stddev)


def _square(message: square_box_coder_pb2.SquareBoxCoder) -> BoxCoder:
    return SquareBoxCoder(y_scale=message.y_scale, x_scale=message.x_scale, length_scale=message.length_scale)


BOX_CODERS: dict[str, Callable[[Any], BoxCoder]] = {
    "faster_rcnn_box_coder": _faster_rcnn,
    "keypoint_box_coder": _keypoint,
    "mean_stddev_box_coder": _mean_stddev,
    "square_box_coder": _square,
}


def build_box_coder(message: box_coder_pb2.BoxCoder) -> BoxCoder:
    """Build the box coder that a checked message describes."""
    return build_oneof(message, "box_coder_oneof", BOX_CODERS)
