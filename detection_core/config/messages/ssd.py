"""One-stage detectors on anchors: what their parts ask of each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from detection_core.config.messages.anchors import anchors_per_location, layer_count, layer_field
from detection_core.config.messages.box_coders import code_size
from detection_core.config.messages.extractors import (
    EXTRACTORS,
    extractor_problems,
    map_levels,
)
from detection_core.config.messages.image_resizers import one_size_problems
from detection_core.config.rules import Rules
from detection_core.errors import Problem
from detection_core.protos.ssd_pb2 import Ssd

# Losses that compare decoded boxes, rather than all numbers of their codes.
_OF_BOXES = ("weighted_giou", "weighted_iou")


def _ssd(ssd: Ssd, path: str) -> Iterator[Problem]:
    yield from one_size_problems(ssd.image_resizer, f"{path}.image_resizer")
    if not list(extractor_problems(ssd.feature_extractor, f"{path}.feature_extractor")):
        yield from fitting_problems(ssd, path)
    yield from _head(ssd, path)
    yield from _background(ssd, path)
    yield from _keypoint_loss(ssd, path)


def fitting_problems(ssd: Ssd, path: str) -> Iterator[Problem]:
    """Find what keeps a generator's anchors from covering exactly the feature maps of the extractor.

    Args:
        ssd: the model.
        path: its field path.
    """
    generator, extractor = ssd.anchor_generator, ssd.feature_extractor
    arm = generator.WhichOneof("anchor_generator_oneof")
    if arm is None:
        return
    place, message = f"{path}.anchor_generator.{arm}", getattr(generator, arm)
    if not _is_normalised(arm, message):
        text = "expected anchors as fractions of the image, found anchors in pixels; "
        text += "use another generator" if arm.startswith("grid") else "set normalize_coordinates: true"
        yield Problem(path=place, message=text)
    levels = map_levels(extractor)
    if levels is None:
        return
    source = _source(extractor)
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


def _source(extractor: Any) -> str:
    neck = EXTRACTORS[extractor.type].neck
    return "feature_extractor.num_layers" if neck == "extra_layers" else f"feature_extractor.{neck}"


def _is_normalised(arm: str, message: Any) -> bool:
    return arm == "ssd_anchor_generator" or bool(getattr(message, "normalize_coordinates", False))


def _head(ssd: Ssd, path: str) -> Iterator[Problem]:
    """Find what keeps a head from being made for the box coder and the anchors."""
    arm = ssd.box_predictor.WhichOneof("box_predictor_oneof")
    head: Any = getattr(ssd.box_predictor, arm or "", None)
    if head is None or "box_code_size" not in head.DESCRIPTOR.fields_by_name:
        return
    path = f"{path}.box_predictor.{arm}"
    size = code_size(ssd.box_coder)
    if size and head.box_code_size != size:
        text = f"expected {size}, the size of the box coder's codes, found {head.box_code_size:,}"
        yield Problem(path=f"{path}.box_code_size", message=f"{text}; set box_code_size: {size}")
    counts = sorted(set(anchors_per_location(ssd.anchor_generator)))
    if arm == "weight_shared_convolutional_box_predictor" and len(counts) > 1:
        text = (
            "expected as many anchors at each place of every feature map, as they share the head's weights,"
            f" found {' and '.join(map(str, counts[:3]))}; set reduce_boxes_in_lowest_layer: false, or use"
            " convolutional_box_predictor"
        )
        yield Problem(path=path, message=text)


def _background(ssd: Ssd, path: str) -> Iterator[Problem]:
    if ssd.explicit_background_class and ssd.num_classes == 1:
        text = "expected at least one class beside the background, which num_classes counts, found 1"
        yield Problem(path=f"{path}.num_classes", message=f"{text}; set num_classes: 2")
    if ssd.explicit_background_class and ssd.add_background_class:
        text = (
            "expected add_background_class: false beside explicit_background_class: true, as the scores then"
            " have the background's column already; set add_background_class: false"
        )
        yield Problem(path=f"{path}.explicit_background_class", message=text)


def _keypoint_loss(ssd: Ssd, path: str) -> Iterator[Problem]:
    kind = ssd.loss.localization_loss.WhichOneof("localization_loss")
    if ssd.box_coder.HasField("keypoint_box_coder") and kind in _OF_BOXES:
        text = (
            f"expected a loss of codes beside keypoint_box_coder, found {kind}, one of boxes, which never"
            " sees the keypoints; use weighted_smooth_l1"
        )
        yield Problem(path=f"{path}.loss.localization_loss", message=text)


def keypoints(ssd: Ssd) -> tuple[int, str] | None:
    """Return the keypoints that a detector is trained on and the field that says so; None without any."""
    coder = ssd.box_coder
    if not coder.HasField("keypoint_box_coder"):
        return None
    return coder.keypoint_box_coder.num_keypoints, "box_coder.keypoint_box_coder"


RULES: Mapping[str, Rules] = {
    "Ssd": Rules(
        ("families.ssd.build", "families.ssd.target_assigner", "builders.input_pipeline"),
        parts=(
            "box_coder",
            "matcher",
            "similarity_calculator",
            "box_predictor",
            "anchor_generator",
            "loss",
        ),
        check=_ssd,
        without_effect={
            "inplace_batchnorm_update": "batch norms always update within the training step",
            "return_raw_detections_during_predict": "an exported detector always gives raw detections",
        },
        refused={
            "mask_head_config": "one-stage detectors here find boxes only; remove it",
        },
    ),
}
