"""What a TensorFlow Lite file cannot hold, found before anything is trained for one."""

from __future__ import annotations

from collections.abc import Iterator

from detection_core.allowed_values import POSITIVE_FRACTION
from detection_core.errors import Problem
from detection_core.protos.efficientdet_pb2 import EfficientDet
from detection_core.protos.image_resizer_pb2 import ImageResizer
from detection_core.protos.ssd_pb2 import Ssd

CLIP_RANGE = "box_encodings_clip_range"
OPERATION = "TFLite_Detection_PostProcess"
_CODER = "faster_rcnn_box_coder"


def efficientdet_tflite_problems(message: EfficientDet, path: str) -> Iterator[Problem]:
    """Find what keeps an EfficientDet from being a TensorFlow Lite file.

    Args:
        message: of the detector; without a resizer images are stretched to one size.
        path: its field path.
    """
    if message.HasField("image_resizer"):
        yield from _resizer(message.image_resizer, path)


def _resizer(message: ImageResizer, path: str) -> Iterator[Problem]:
    found = message.WhichOneof("image_resizer_oneof")
    if found != "fixed_shape_resizer":
        text = (
            "expected fixed_shape_resizer, as a TensorFlow Lite file has one input size, found"
            f" {found}; train with a fixed size"
        )
        yield Problem(path=f"{path}.image_resizer", message=text)


def ssd_tflite_problems(ssd: Ssd, path: str) -> Iterator[Problem]:
    """Find what keeps a one-stage detector from being a TensorFlow Lite file with a fixed input.

    Args:
        ssd: the model.
        path: its field path.
    """
    yield from _resizer(ssd.image_resizer, path)
    yield from box_coder_problems(ssd, f"{path}.box_coder")
    suppression = ssd.post_processing.batch_non_max_suppression
    if not POSITIVE_FRACTION.holds(suppression.iou_threshold):
        text = (
            f"expected {POSITIVE_FRACTION.text}, which is what {OPERATION} takes, found"
            f" {suppression.iou_threshold:g}; set it to 0.6, or what the detector was tuned for"
        )
        yield Problem(path=f"{path}.post_processing.batch_non_max_suppression.iou_threshold", message=text)
    head = ssd.box_predictor.WhichOneof("box_predictor_oneof")
    predictor = getattr(ssd.box_predictor, head or "", None)
    if predictor and CLIP_RANGE in {field.name for field, _ in predictor.ListFields()}:
        text = (
            "expected box codes as the network gives them, which the TensorFlow Lite operation decodes,"
            " found a clip range; leave it out"
        )
        yield Problem(path=f"{path}.box_predictor.{head}.{CLIP_RANGE}", message=text)


def box_coder_problems(ssd: Ssd, path: str) -> Iterator[Problem]:
    """Find a box coder that no reader of TensorFlow Lite detectors decodes; one that is not set is none.

    Args:
        ssd: the model.
        path: of its box coder.
    """
    found = ssd.box_coder.WhichOneof("box_coder_oneof")
    if found in (None, _CODER):
        return
    reason = (
        f"; {OPERATION} and MediaPipe's detector give boxes without keypoints: serve the SavedModel, whose"
        f" detection_keypoints has them, or train with {_CODER}"
        if found == "keypoint_box_coder"
        else "; use that coder"
    )
    yield Problem(path=path, message=f"expected {_CODER}, which {OPERATION} decodes, found {found}{reason}")
