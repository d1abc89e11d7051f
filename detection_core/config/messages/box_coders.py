"""Box coders and their code sizes."""

from __future__ import annotations

from collections.abc import Mapping

from detection_core.allowed_values import POSITIVE, Range
from detection_core.detectors.rules import Rules
from detection_core.protos.box_coder_pb2 import BoxCoder

_CODE_SIZES = {"faster_rcnn_box_coder": 4, "mean_stddev_box_coder": 4, "square_box_coder": 3}
_KEYPOINTS = Range(1, 10_000, "a number from 1 to 10,000; faster_rcnn_box_coder codes boxes alone")


def code_size(coder: BoxCoder) -> int:
    """Return the length of a box code; 0 if no coder is set."""
    if coder.HasField("keypoint_box_coder"):
        return 4 + 2 * coder.keypoint_box_coder.num_keypoints
    return _CODE_SIZES.get(str(coder.WhichOneof("box_coder_oneof")), 0)


RULES: Mapping[str, Rules] = {
    "BoxCoder": Rules("builders.anchors", oneofs=("box_coder_oneof",)),
    "FasterRcnnBoxCoder": Rules("builders.anchors"),
    "KeypointBoxCoder": Rules(
        "builders.anchors",
        ranges={"num_keypoints": _KEYPOINTS},
    ),
    "MeanStddevBoxCoder": Rules("builders.anchors", ranges={"stddev": POSITIVE}),
    "SquareBoxCoder": Rules("builders.anchors"),
}
