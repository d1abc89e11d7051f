"""Build target assigners from Ssd messages."""

from __future__ import annotations

from detection_core.builders.anchors import build_box_coder, build_matcher, build_similarity
from detection_core.config.num_classes import foreground_classes
from detection_core.parts.targets.anchor_targets import AnchorTargetAssigner
from detection_core.parts.targets.confidence_targets import ConfidenceTargetAssigner
from detection_core.protos import ssd_pb2


def build_target_assigner(message: ssd_pb2.Ssd) -> AnchorTargetAssigner:
    """Build the target assigner of a checked one-stage detector."""
    box_coder = build_box_coder(message.box_coder)
    background = message.add_background_class or message.explicit_background_class
    similarity = build_similarity(message.similarity_calculator)
    matcher = build_matcher(message.matcher)
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
