"""Build and describe detectors from Ssd messages."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import tf_keras

from detection_core.builders.backbones import BACKBONES
from detection_core.builders.detector_parts import (
    build_anchor_generator,
    build_box_coder,
    build_losses,
    build_matcher,
    build_post_processing,
    build_similarity,
)
from detection_core.builders.heads import HeadPlan, build_head
from detection_core.config.messages.sizes import fixed_size
from detection_core.config.model_fields import foreground_classes
from detection_core.families.ssd.extractors import EXTRACTORS, map_shapes
from detection_core.families.ssd.feature_maps import build_feature_maps, find_backbone
from detection_core.families.ssd.model import AnchorLevel, SsdModel, SsdOptions, SsdParts
from detection_core.parts.anchor_criterion import AnchorCriterion
from detection_core.parts.anchors.base import AnchorGenerator
from detection_core.parts.heads.predictions import HeadOutputs
from detection_core.parts.layers.layer_hyperparams import Regularizer
from detection_core.parts.layers.network_layers import NetworkLayers, pad_to_multiple
from detection_core.parts.targets.anchor_targets import AnchorTargetAssigner
from detection_core.parts.targets.confidence_targets import ConfidenceTargetAssigner
from detection_core.protos import ssd_pb2
from detection_core.protos.ssd_pb2 import Ssd


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuiltNetwork:
    """A network, before the rest of the detector is built.

    Attributes:
        network: preprocessed images -> (box codes, class logits).
        anchors: float32 [A, 4], in the order of the predictions.
        levels: feature maps with their anchors.
        regularizers: "layer/weight" -> regularizer.
    """

    network: tf_keras.Model
    anchors: np.ndarray
    levels: tuple[AnchorLevel, ...]
    regularizers: dict[str, Regularizer]


def build_ssd(message: ssd_pb2.Ssd, where: str, seed: int | None = 0) -> SsdModel:
    """Build the detector that a checked message describes.

    `seed` is that of the initial weights; None makes them zeros.

    Raises:
        ConfigError: when its backbone is not registered.
    """
    input_size = fixed_size(message.image_resizer)
    generator = build_anchor_generator(message.anchor_generator)
    assigner = build_target_assigner(message)
    plan = build_head(message.box_predictor, code_size=assigner.box_coder.code_size)
    criterion = _build_criterion(message, assigner)
    post_processing = build_post_processing(message.post_processing)
    entry = find_backbone(message.feature_extractor, f"{where}.feature_extractor")
    built = _build_network(message, where, plan, generator, input_size, seed)
    options = SsdOptions(
        num_classes=foreground_classes(message),
        input_size=input_size,
        preprocessing=entry.preprocessing,
        code_clip=plan.code_clip,
        background=message.add_background_class or message.explicit_background_class,
    )
    parts = SsdParts(
        options=options,
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
    del where
    input_size = fixed_size(message.image_resizer)
    generator = build_anchor_generator(message.anchor_generator)
    shapes = map_shapes(message.feature_extractor, *input_size)
    return np.concatenate(_lay_levels(generator, shapes, input_size), axis=0)


def _lay_levels(
    generator: AnchorGenerator, shapes: Sequence[tuple[int, int]], input_size: tuple[int, int]
) -> list[np.ndarray]:
    """Return the anchors of each feature map, float32 [A_l, 4]."""
    return [level.numpy().astype(np.float32) for level in generator.generate(shapes, *input_size)]


def _build_criterion(message: ssd_pb2.Ssd, assigner: AnchorTargetAssigner) -> AnchorCriterion:
    return AnchorCriterion(
        assigner=assigner,
        losses=build_losses(message.loss),
        normalize_by_matches=message.normalize_loss_by_num_matches,
        normalize_by_code_size=message.normalize_loc_loss_by_codesize,
    )


def _build_network(
    message: ssd_pb2.Ssd,
    where: str,
    plan: HeadPlan,
    generator: AnchorGenerator,
    input_size: tuple[int, int],
    seed: int | None,
) -> BuiltNetwork:
    layers = NetworkLayers(
        hyperparams=plan.hyperparams, freeze_batch_norm=message.freeze_batchnorm, seed=seed
    )
    inputs = tf_keras.Input((*input_size, 3), name="image")
    padded = pad_to_multiple(inputs, message.feature_extractor.pad_to_multiple)
    maps = build_feature_maps(message.feature_extractor, padded, layers, f"{where}.feature_extractor")
    outputs = HeadOutputs(
        anchors_per_location=generator.num_anchors_per_location(),
        num_class_slots=message.num_classes + int(message.add_background_class),
        code_size=plan.code_size,
    )
    predictions = plan.head(maps, layers, outputs)
    shapes = [(int(features.shape[1]), int(features.shape[2])) for features in maps]
    anchors = _lay_levels(generator, shapes, input_size)
    return BuiltNetwork(
        network=tf_keras.Model(inputs, list(predictions), name="detector"),
        anchors=np.concatenate(anchors, axis=0),
        levels=tuple(
            AnchorLevel(rows=rows, columns=columns, anchors=len(level))
            for (rows, columns), level in zip(shapes, anchors, strict=True)
        ),
        regularizers=layers.regularizers,
    )


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class SsdDescription:
    """The detector that a message describes.

    Attributes:
        feature_extractor: its type, as the config names it.
        family: of the backbone.
        neck: between backbone and heads.
        anchors: boxes predicted for one image.
        levels: feature maps with their anchors, finest first.
        parts: head and losses, by the arms of their oneofs.
    """

    feature_extractor: str
    family: str
    neck: str
    anchors: int
    levels: tuple[AnchorLevel, ...]
    parts: dict[str, str]

    def summary(self) -> str:
        """Name extractor, backbone and neck."""
        return f"{self.feature_extractor} ({self.family}, {self.neck})"

    def rows(self) -> list[tuple[str, str]]:
        """List the anchors of each feature map."""
        levels = [
            ("", f"{level.rows} x {level.columns} x {level.anchors / (level.rows * level.columns):g}")
            for level in self.levels
        ]
        return [("anchors", f"{self.anchors:,}"), *levels]


def describe_ssd(message: Ssd, detector: SsdModel) -> SsdDescription:
    """Describe a detector that was built from a message."""
    extractor, loss = message.feature_extractor.type, message.loss
    return SsdDescription(
        feature_extractor=extractor,
        family=BACKBONES[EXTRACTORS[extractor].backbone].family,
        neck=EXTRACTORS[extractor].neck,
        anchors=sum(level.anchors for level in detector.levels),
        levels=detector.levels,
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
