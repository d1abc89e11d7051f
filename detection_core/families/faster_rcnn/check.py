"""Check that the parts of a two-stage detector fit together."""

from collections.abc import Iterator, Mapping

from detection_core.allowed_values import (
    BOXES,
    CHANNELS,
    FRACTION,
    KERNEL,
    LAYERS,
    NOT_NEGATIVE,
    Range,
    up_to,
)
from detection_core.config.messages.anchors import anchors_per_location, layer_count, layer_field
from detection_core.config.messages.sizes import Laid, prediction_problems
from detection_core.detectors.rules import Rules
from detection_core.errors import Problem
from detection_core.families.faster_rcnn.extractors import EXTRACTOR_RULES, has_pyramid, strides
from detection_core.protos.box_predictor_pb2 import MaskRCNNBoxPredictor
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
    if message.HasField("hard_example_miner") and message.second_stage_classification_loss.HasField(
        "weighted_sigmoid_focal"
    ):
        text = "expected none beside weighted_sigmoid_focal, which weighs examples itself; remove one"
        yield Problem(path=f"{path}.hard_example_miner", message=text)


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


def _mask_rcnn_head(head: MaskRCNNBoxPredictor, path: str) -> Iterator[Problem]:
    if head.box_code_size != 4:
        text = f"expected 4, the size of the codes, found {head.box_code_size:,}; remove the field"
        yield Problem(path=f"{path}.box_code_size", message=text)


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
    proposals = max(message.first_stage_max_proposals, 0)
    kept = Laid(proposals, 1, f"{path}.first_stage_max_proposals")
    yield from prediction_problems(kept, message.num_classes, f"{path}.num_classes")


_KERNEL = "it chose a kernel for an accelerator; the result is the same with and without"
_CONTEXT = "features of boxes serve Context R-CNN, which is not built here; remove it"
_ABOVE_ZERO = up_to(16_384)

RULES: Mapping[str, Rules] = {
    **EXTRACTOR_RULES,
    "FasterRcnn": Rules(
        ranges={
            "number_of_stages": up_to(MASK_STAGES),
            "first_stage_atrous_rate": KERNEL,
            "first_stage_box_predictor_kernel_size": KERNEL,
            "first_stage_box_predictor_depth": _ABOVE_ZERO,
            "first_stage_minibatch_size": BOXES,
            "first_stage_positive_balance_fraction": FRACTION,
            "first_stage_nms_score_threshold": NOT_NEGATIVE,
            "first_stage_nms_iou_threshold": FRACTION,
            "first_stage_max_proposals": BOXES,
            "first_stage_localization_loss_weight": NOT_NEGATIVE,
            "first_stage_objectness_loss_weight": NOT_NEGATIVE,
            "initial_crop_size": Range(0, 256, "a number from 0 to 256"),
            "maxpool_kernel_size": Range(0, 256, "a number from 0 to 256"),
            "maxpool_stride": Range(0, 256, "a number from 0 to 256"),
            "second_stage_batch_size": BOXES,
            "second_stage_balance_fraction": FRACTION,
            "second_stage_localization_loss_weight": NOT_NEGATIVE,
            "second_stage_classification_loss_weight": NOT_NEGATIVE,
            "second_stage_mask_prediction_loss_weight": NOT_NEGATIVE,
        },
        parts=("first_stage_anchor_generator",),
        check=_faster_rcnn,
        without_effect={
            "inplace_batchnorm_update": "batch norms always update within the training step",
            "return_raw_detections_during_predict": "an exported detector always gives raw detections",
            "resize_masks": "masks are resized with their image, before they reach the detector",
            **dict.fromkeys(
                (
                    "use_matmul_crop_and_resize",
                    "use_matmul_gather_in_matcher",
                    "use_static_balanced_label_sampler",
                    "use_static_shapes",
                    "use_static_shapes_for_eval",
                    "use_partitioned_nms_in_first_stage",
                    "use_combined_nms_in_first_stage",
                ),
                _KERNEL,
            ),
        },
        refused={
            "output_final_box_features": _CONTEXT,
            "output_final_box_rpn_features": _CONTEXT,
            "context_config": "Context R-CNN needs features of other images of the same camera, which no"
            " record here has; remove it",
        },
    ),
    "MaskRCNNBoxPredictor": Rules(
        ranges={
            "mask_prediction_conv_depth": CHANNELS,
            "mask_prediction_num_conv_layers": LAYERS,
            "mask_height": up_to(1_024),
            "mask_width": up_to(1_024),
        },
        check=_mask_rcnn_head,
        refused={"predict_keypoints": "no code of the Object Detection API reads it; remove it"},
    ),
}
