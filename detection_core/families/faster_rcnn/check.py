"""Check that the parts of a two-stage detector fit together."""

from collections.abc import Iterator

from detection_core.config.messages.anchors import anchors_per_location, layer_count, layer_field
from detection_core.config.messages.sizes import Laid, prediction_problems
from detection_core.detectors.rules import read_rules
from detection_core.errors import Problem
from detection_core.families.faster_rcnn.extractors import extractor_problems, has_pyramid, strides
from detection_core.protos.faster_rcnn_pb2 import FasterRcnn

_HEAD = "mask_rcnn_box_predictor"
MASK_STAGES = 3
"""Stages of a detector that finds masks."""


def finds_masks(message: FasterRcnn) -> bool:
    """Return whether the detector has the third stage."""
    return message.number_of_stages == MASK_STAGES


def pooled_side(message: FasterRcnn) -> int:
    """Return rows and columns of a pooled region; 0 or less: the pooling does not fit the crop."""
    kernel, stride = message.maxpool_kernel_size, message.maxpool_stride
    if min(message.initial_crop_size, kernel, stride) < 1:
        return 0
    return (message.initial_crop_size - kernel) // stride + 1


def _faster_rcnn(message: FasterRcnn, path: str) -> Iterator[Problem]:
    yield from _anchors(message, path)
    if message.number_of_stages > 1:
        # R-FCN, which is refused, crops no regions.
        if not message.second_stage_box_predictor.HasField("rfcn_box_predictor"):
            yield from _regions(message, path)
        yield from _head(message, path)


def _anchors(message: FasterRcnn, path: str) -> Iterator[Problem]:
    generator = message.first_stage_anchor_generator
    arm = generator.WhichOneof("anchor_generator_oneof")
    if arm is None:
        return
    path = f"{path}.first_stage_anchor_generator.{arm}"
    pyramid = has_pyramid(message.feature_extractor)
    maps, found = len(strides(message.feature_extractor)) if pyramid else 1, layer_count(generator)
    if found != maps:
        expected, remedy = "one feature map", "leave one"
        if pyramid:
            expected, remedy = f"{maps} feature maps, as the pyramid has", "make them equal"
        text = f"expected anchors on {expected}, found {found} layers; {remedy}"
        yield Problem(path=f"{path}{layer_field(generator)}", message=text)
    if pyramid and getattr(getattr(generator, arm), "normalize_coordinates", False):
        text = "expected false, as two-stage detectors lay their anchors in pixels, found true; set it"
        yield Problem(path=f"{path}.normalize_coordinates", message=text)


def _regions(message: FasterRcnn, path: str) -> Iterator[Problem]:
    """Find a crop of proposals that is missing or too small."""
    for name in ("initial_crop_size", "maxpool_kernel_size", "maxpool_stride"):
        if getattr(message, name) < 1:
            text = f"expected 1 or more for the second stage, found {getattr(message, name)}; set it"
            yield Problem(path=f"{path}.{name}", message=text)
            return
    if pooled_side(message) < 1:
        text = (
            f"expected a crop at least as large as maxpool_kernel_size, {message.maxpool_kernel_size}, found"
            f" {message.initial_crop_size}; make it larger"
        )
        yield Problem(path=f"{path}.initial_crop_size", message=text)


def _head(message: FasterRcnn, path: str) -> Iterator[Problem]:
    """Find a second stage without its head, and masks that do not fit the stages."""
    path = f"{path}.second_stage_box_predictor"
    arm = message.second_stage_box_predictor.WhichOneof("box_predictor_oneof")
    if arm is None and not message.HasField("second_stage_box_predictor"):
        yield Problem(path=path, message=f"expected {_HEAD} for the second stage, found none; set it")
    if arm not in (None, _HEAD, "rfcn_box_predictor"):
        text = f"expected {_HEAD}, found {arm}, a head of one-stage detectors; change it"
        yield Problem(path=f"{path}.{arm}", message=text)
    if arm != _HEAD:
        return
    head = message.second_stage_box_predictor.mask_rcnn_box_predictor
    if head.predict_instance_masks != finds_masks(message):
        text = (
            f"expected {str(finds_masks(message)).lower()} beside number_of_stages:"
            f" {message.number_of_stages}, as the third stage finds the masks, found the opposite; change one"
        )
        yield Problem(path=f"{path}.{_HEAD}.predict_instance_masks", message=text)


def size_problems(message: FasterRcnn, path: str, size: tuple[int, int]) -> Iterator[Problem]:
    """Find more anchors or scores than fit into memory."""
    counts = anchors_per_location(message.first_stage_anchor_generator)
    found = strides(message.feature_extractor)
    if not found or len(counts) != len(found) or min(found) < 1:
        return
    anchors = [-(-size[0] // s) * -(-size[1] // s) * count for s, count in zip(found, counts, strict=True)]
    laid = Laid(sum(anchors), max(counts), f"{path}.first_stage_anchor_generator")
    # The first stage has two classes, object and background.
    yield from prediction_problems(laid, 2, f"{path}.num_classes")
    kept = Laid(max(message.first_stage_max_proposals, 0), 1, f"{path}.first_stage_max_proposals")
    yield from prediction_problems(kept, message.num_classes, f"{path}.num_classes")


RULES = read_rules(__file__, {"FasterRcnn": _faster_rcnn, "FasterRcnnFeatureExtractor": extractor_problems})
