"""Ssd messages to target assigners."""

from __future__ import annotations

from detection_core.box_coders.keypoint import KeypointBoxCoder
from detection_core.builders.box_coders import build_box_coder
from detection_core.builders.label_targets import foreground_classes
from detection_core.builders.losses import compares_boxes
from detection_core.builders.matchers import build_matcher
from detection_core.builders.similarity import build_similarity
from detection_core.errors import ConfigError
from detection_core.protos import ssd_pb2
from detection_core.targets.anchor_targets import AnchorTargetAssigner
from detection_core.targets.confidence_targets import ConfidenceTargetAssigner


def build_target_assigner(message: ssd_pb2.Ssd, where: str = "model.ssd") -> AnchorTargetAssigner:
    """Build what gives each anchor of a one-stage detector its targets.

    Args:
        message: the detector.
        where: its path in the configuration, for errors.

    Returns:
        The assigner.

    Raises:
        ConfigError: when a part is missing, or settings contradict each other.
    """
    box_coder = build_box_coder(message.box_coder, f"{where}.box_coder")
    if isinstance(box_coder, KeypointBoxCoder) and compares_boxes(message.loss.localization_loss):
        raise ConfigError(
            "expected a loss of codes beside keypoint_box_coder, found one of boxes, which never sees the "
            "keypoints; use weighted_smooth_l1",
            where=f"{where}.loss.localization_loss",
        )
    if message.explicit_background_class and message.add_background_class:
        raise ConfigError(
            "expected add_background_class: false beside explicit_background_class: true, as the scores then "
            "have the background's column already; set add_background_class: false",
            where=f"{where}.explicit_background_class",
        )
    background = message.add_background_class or message.explicit_background_class
    similarity = build_similarity(message.similarity_calculator, f"{where}.similarity_calculator")
    matcher = build_matcher(message.matcher, f"{where}.matcher")
    if message.use_confidences_as_targets:
        return ConfidenceTargetAssigner(
            similarity=similarity,
            matcher=matcher,
            box_coder=box_coder,
            num_classes=foreground_classes(message),
            add_background_class=background,
            implicit_class_weight=message.implicit_example_weight,
        )
    return AnchorTargetAssigner(
        similarity=similarity,
        matcher=matcher,
        box_coder=box_coder,
        num_classes=foreground_classes(message),
        negative_class_weight=message.negative_class_weight,
        add_background_class=background,
        encode_background_as_zeros=message.encode_background_as_zeros,
    )
