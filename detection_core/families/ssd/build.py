"""Build and describe detectors from Ssd messages."""

import dataclasses
from typing import Any

import numpy as np

from detection_core.builders import detector_parts
from detection_core.builders.backbones import BACKBONES
from detection_core.builders.heads import build_head
from detection_core.config.messages.sizes import fixed_size
from detection_core.config.model_fields import foreground_classes
from detection_core.detectors.family import FamilyDescription
from detection_core.families.ssd.extractors import EXTRACTORS, map_shapes
from detection_core.families.ssd.model import SsdModel, SsdParts
from detection_core.families.ssd.network import build_network, find_backbone, lay_levels
from detection_core.parts.anchor_criterion import AnchorCriterion
from detection_core.parts.targets import AnchorTargetAssigner, ConfidenceTargetAssigner
from detection_core.protos import ssd_pb2
from detection_core.protos.ssd_pb2 import Ssd
from detection_core.structures import COLOURS


def build_ssd(message: ssd_pb2.Ssd, where: str, seed: int | None = 0, channels: int = COLOURS) -> SsdModel:
    """Build the detector that a checked message describes; see `Family.build`.

    Raises:
        ConfigError: when its backbone is not registered.
    """
    input_size = fixed_size(message.image_resizer)
    generator = detector_parts.build_anchor_generator(message.anchor_generator)
    assigner = build_target_assigner(message)
    plan = build_head(message.box_predictor)
    criterion = AnchorCriterion(
        assigner=assigner,
        losses=detector_parts.build_losses(message.loss),
        normalize_by_matches=message.normalize_loss_by_num_matches,
        normalize_by_code_size=message.normalize_loc_loss_by_codesize,
    )
    post_processing = detector_parts.build_post_processing(message.post_processing)
    entry = find_backbone(message.feature_extractor, f"{where}.feature_extractor")
    built = build_network(message, where, plan, generator, input_size, seed, channels)
    parts = SsdParts(
        num_classes=foreground_classes(message),
        input_size=input_size,
        preprocessing=entry.preprocessing,
        code_clip=plan.code_clip,
        background=message.add_background_class or message.explicit_background_class,
        anchors=built.anchors,
        levels=built.levels,
        box_coder=assigner.box_coder,
        post_processing=post_processing,
        criterion=criterion,
        regularizers=built.regularizers,
    )
    return SsdModel(built.network, parts)


def anchor_boxes(message: ssd_pb2.Ssd, where: str) -> np.ndarray:
    """Return the anchors of a checked message without building its network.

    They are float32 [A, 4], normalised to the input, in the order of the predictions: `SsdModel.anchors`.
    """
    input_size = fixed_size(message.image_resizer)
    generator = detector_parts.build_anchor_generator(message.anchor_generator)
    shapes = map_shapes(message.feature_extractor, *input_size)
    return np.concatenate(lay_levels(generator, shapes, input_size), axis=0)


def build_target_assigner(message: ssd_pb2.Ssd) -> AnchorTargetAssigner:
    """Build the target assigner of a checked one-stage detector."""
    parts: dict[str, Any] = {
        "similarity": detector_parts.build_similarity(message.similarity_calculator),
        "matcher": detector_parts.build_matcher(message.matcher),
        "box_coder": detector_parts.build_box_coder(message.box_coder),
        "num_classes": foreground_classes(message),
        "add_background_class": message.add_background_class or message.explicit_background_class,
    }
    if message.use_confidences_as_targets:
        return ConfidenceTargetAssigner(**parts, implicit_class_weight=message.implicit_example_weight)
    return AnchorTargetAssigner(
        **parts,
        negative_class_weight=message.negative_class_weight,
        encode_background_as_zeros=message.encode_background_as_zeros,
    )


def describe_ssd(message: Ssd, detector: SsdModel) -> FamilyDescription:
    """Describe a detector that was built from a message."""
    extractor, loss = message.feature_extractor.type, message.loss
    family, neck = BACKBONES[EXTRACTORS[extractor].backbone].family, EXTRACTORS[extractor].neck
    anchors = sum(level.anchors for level in detector.levels)
    levels = [
        ("", f"{level.rows} x {level.columns} x {level.anchors / (level.rows * level.columns):g}")
        for level in detector.levels
    ]
    return FamilyDescription(
        summary=f"{extractor} ({family}, {neck})",
        rows=[("anchors", f"{anchors:,}"), *levels],
        data={
            "feature_extractor": extractor,
            "family": family,
            "neck": neck,
            "anchors": anchors,
            "levels": [dataclasses.asdict(level) for level in detector.levels],
        },
        parts={
            "head": str(message.box_predictor.WhichOneof("box_predictor_oneof")),
            "losses": (
                f"{loss.classification_weight:g} x"
                f" {loss.classification_loss.WhichOneof('classification_loss')} +"
                f" {loss.localization_weight:g} x"
                f" {loss.localization_loss.WhichOneof('localization_loss')}"
            ),
        },
    )
