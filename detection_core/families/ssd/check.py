"""Check that the parts of an anchor-based one-stage detector fit together."""

from collections.abc import Iterator
from typing import Any

from detection_core.allowed_values import OPERATION, POSITIVE_FRACTION
from detection_core.config.messages import sizes
from detection_core.config.messages.anchors import anchors_per_location, code_size, layer_count, layer_field
from detection_core.config.messages.detector_parts import CLIP_RANGE
from detection_core.detectors.rules import read_rules
from detection_core.errors import Problem
from detection_core.families.ssd import extractors
from detection_core.protos.ssd_pb2 import Ssd

_CODER = "faster_rcnn_box_coder"


def _ssd(ssd: Ssd, path: str) -> Iterator[Problem]:
    yield from sizes.one_size_problems(ssd.image_resizer, f"{path}.image_resizer")
    if not list(extractors.extractor_problems(ssd.feature_extractor, f"{path}.feature_extractor")):
        yield from fitting_problems(ssd, path)
    yield from _head(ssd, path)


def fitting_problems(ssd: Ssd, path: str) -> Iterator[Problem]:
    """Find reasons why the anchors do not match the extractor's feature maps."""
    generator, extractor = ssd.anchor_generator, ssd.feature_extractor
    arm = generator.WhichOneof("anchor_generator_oneof")
    if arm is None:
        return
    place, message = f"{path}.anchor_generator.{arm}", getattr(generator, arm)
    if arm != "ssd_anchor_generator" and not getattr(message, "normalize_coordinates", False):
        text = "expected anchors as fractions of the image, found anchors in pixels; "
        text += "use another generator" if arm.startswith("grid") else "set normalize_coordinates: true"
        yield Problem(path=place, message=text)
    levels = extractors.map_levels(extractor)
    if levels is None:
        return
    neck = extractors.EXTRACTORS[extractor.type].neck
    source = f"feature_extractor.{'num_layers' if neck == 'extra_layers' else neck}"
    if arm == "multiscale_anchor_generator":
        if levels and (message.min_level, message.max_level) != (levels[0], levels[-1]):
            found = f"{message.min_level} to {message.max_level}"
            text = f"expected levels {levels[0]} to {levels[-1]} as {source} has, found {found}"
            yield Problem(path=place, message=text)
    elif layer_count(generator) != len(levels):
        text = (
            f"expected {len(levels)} layers as {source} gives, found {layer_count(generator)}; make the two"
            " equal"
        )
        yield Problem(path=f"{place}{layer_field(generator)}", message=text)


def _head(ssd: Ssd, path: str) -> Iterator[Problem]:
    """Find reasons why the head does not fit the box coder and the anchors."""
    arm = ssd.box_predictor.WhichOneof("box_predictor_oneof")
    head: Any = getattr(ssd.box_predictor, arm or "", None)
    if head is None or arm == "mask_rcnn_box_predictor":
        return
    path = f"{path}.box_predictor.{arm}"
    size = code_size(ssd.box_coder)
    if size and head.box_code_size != size:
        text = f"expected {size}, the size of the box coder's codes, found {head.box_code_size:,}"
        yield Problem(path=f"{path}.box_code_size", message=f"{text}; set box_code_size: {size}")
    counts = sorted(set(anchors_per_location(ssd.anchor_generator)))
    if arm == "weight_shared_convolutional_box_predictor" and len(counts) > 1:
        text = (
            "expected the same number of anchors per location on all feature maps, because they share the"
            f" head's weights, found {' and '.join(map(str, counts[:3]))}; set"
            " reduce_boxes_in_lowest_layer: false, or use convolutional_box_predictor"
        )
        yield Problem(path=path, message=text)


def keypoints(ssd: Ssd) -> tuple[int, str] | None:
    """Return the number of keypoints in training and the field that sets it; None without keypoints."""
    coder = ssd.box_coder
    if not coder.HasField("keypoint_box_coder"):
        return None
    return coder.keypoint_box_coder.num_keypoints, "box_coder.keypoint_box_coder"


def size_problems(ssd: Ssd, path: str, size: tuple[int, int]) -> Iterator[Problem]:
    """Find a too small input, and more anchors, scores or head channels than fit into memory."""
    yield from extractors.least_side_problems(ssd.feature_extractor, f"{path}.feature_extractor", size)
    levels = extractors.map_levels(ssd.feature_extractor)
    # Invalid values are refused elsewhere; do not multiply them out.
    if levels is None or len(levels) > 64 or (levels and levels[-1] > 64):
        return
    generator = ssd.anchor_generator
    multiscale = generator.multiscale_anchor_generator
    spread = multiscale.max_level - multiscale.min_level
    countable = spread < 64 and generator.ssd_anchor_generator.num_layers <= 64
    counts = anchors_per_location(generator) if countable else []
    if not counts or len(counts) != len(levels):
        return
    shapes = extractors.map_shapes(ssd.feature_extractor, *size)
    anchors = sum(rows * columns * count for (rows, columns), count in zip(shapes, counts, strict=True))
    laid = sizes.Laid(anchors, max(counts), f"{path}.anchor_generator")
    yield from sizes.prediction_problems(laid, ssd.num_classes, f"{path}.num_classes")


def tflite_problems(ssd: Ssd, path: str) -> Iterator[Problem]:
    """Find obstacles to exporting a one-stage detector to TensorFlow Lite with a fixed input."""
    yield from sizes.fixed_size_problems(ssd.image_resizer, path)
    yield from box_coder_problems(ssd, f"{path}.box_coder")
    suppression = ssd.post_processing.batch_non_max_suppression
    if not POSITIVE_FRACTION.holds(suppression.iou_threshold):
        text = (
            f"expected {POSITIVE_FRACTION.text}, as {OPERATION} requires, found"
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
    """Find an unset box coder, or one that consumers of TensorFlow Lite detectors do not decode."""
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


RULES = read_rules(__file__, {"SsdFeatureExtractor": extractors.extractor_problems, "Ssd": _ssd})
