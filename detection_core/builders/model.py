"""DetectionModel messages -> detectors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from detection_core.anchors.base import AnchorGenerator
from detection_core.builders.anchors import build_anchor_generator
from detection_core.builders.backbones import build_feature_maps, find_backbone
from detection_core.builders.heads import HeadPlan, build_head
from detection_core.builders.label_targets import foreground_classes
from detection_core.builders.losses import build_losses
from detection_core.builders.post_processing import build_post_processing
from detection_core.builders.targets import build_target_assigner
from detection_core.config.support.fields import SUPPORT
from detection_core.errors import ConfigError
from detection_core.models.anchor_criterion import AnchorCriterion
from detection_core.models.base import DetectionModel
from detection_core.models.heads.predictions import HeadOutputs
from detection_core.models.hyperparams import Penalty
from detection_core.models.network_layers import NetworkLayers, pad_to_multiple
from detection_core.models.ssd import SsdModel, SsdOptions, SsdParts
from detection_core.protos import image_resizer_pb2, model_pb2, ssd_pb2
from detection_core.targets.anchor_targets import AnchorTargetAssigner


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuiltNetwork:
    """A network before the rest of the detector is put around it.

    Attributes:
        network: preprocessed images -> (box codes, class logits).
        anchors: float32 [A, 4], in the order of the predictions.
        penalties: "layer/weight" -> penalty.
    """

    network: tf_keras.Model
    anchors: np.ndarray
    penalties: dict[str, Penalty]


def build_detection_model(message: model_pb2.DetectionModel, *, seed: int | None = 0) -> DetectionModel:
    """Build the detector that a config describes.

    Args:
        message: the `model` of a pipeline.config.
        seed: of the first weights, which depend on it and on their names only. None: zeros, made faster,
            for a detector that is only looked at.

    Raises:
        ConfigError: when the message names something that does not exist here or contradicts itself.
    """
    arm = message.WhichOneof("model")
    if arm not in MODELS:
        reason = SUPPORT["DetectionModel"].refused.get(str(arm), "set one")
        raise ConfigError(f"expected {' or '.join(MODELS)}, found {arm or 'none'}: {reason}", where="model")
    return MODELS[arm](getattr(message, arm), f"model.{arm}", seed)


def _build_ssd(message: ssd_pb2.Ssd, where: str, seed: int | None) -> SsdModel:
    if foreground_classes(message) < 1:
        raise ConfigError(
            f"expected at least one class beside the background, found {foreground_classes(message)}; set "
            "num_classes, which counts an explicit background",
            where=f"{where}.num_classes",
        )
    input_size = network_input_size(message.image_resizer, f"{where}.image_resizer")
    generator = build_anchor_generator(message.anchor_generator, f"{where}.anchor_generator")
    # Whatever can be refused is read before the network, which takes seconds.
    assigner = build_target_assigner(message, where)
    code_size = assigner.box_coder.code_size
    plan = build_head(message.box_predictor, f"{where}.box_predictor", code_size=code_size)
    criterion = _build_criterion(message, assigner, where)
    post_processing = build_post_processing(message.post_processing, f"{where}.post_processing")
    entry = find_backbone(message.feature_extractor, f"{where}.feature_extractor")
    built = _build_network(message, plan, generator, input_size, seed)
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
        box_coder=assigner.box_coder,
        post_processing=post_processing,
        criterion=criterion,
        penalties=built.penalties,
    )
    return SsdModel(built.network, parts)


MODELS: dict[str, Callable[[Any, str, int | None], DetectionModel]] = {"ssd": _build_ssd}


def _build_criterion(message: ssd_pb2.Ssd, assigner: AnchorTargetAssigner, where: str) -> AnchorCriterion:
    return AnchorCriterion(
        assigner=assigner,
        losses=build_losses(message.loss, f"{where}.loss"),
        normalize_by_matches=message.normalize_loss_by_num_matches,
        normalize_by_code_size=message.normalize_loc_loss_by_codesize,
    )


def network_input_size(message: image_resizer_pb2.ImageResizer, where: str) -> tuple[int, int]:
    """Rows and columns that every image has after resizing and padding.

    Raises:
        ConfigError: when the resizer gives images of different sizes, which no one-stage detector's network
            takes here.
    """
    arm = message.WhichOneof("image_resizer_oneof")
    resizer: Any = getattr(message, arm or "", None)
    if arm == "fixed_shape_resizer":
        return resizer.height, resizer.width
    if arm == "keep_aspect_ratio_resizer" and resizer.pad_to_max_dimension:
        return resizer.max_dimension, resizer.max_dimension
    raise ConfigError(
        "expected a resizer with one output size, fixed_shape_resizer or keep_aspect_ratio_resizer with"
        f" pad_to_max_dimension: true, found {arm or 'none'}; change the image_resizer",
        where=where,
    )


def _build_network(
    message: ssd_pb2.Ssd,
    plan: HeadPlan,
    generator: AnchorGenerator,
    input_size: tuple[int, int],
    seed: int | None,
) -> BuiltNetwork:
    where = "model.ssd.feature_extractor"
    layers = NetworkLayers(
        hyperparams=plan.hyperparams, freeze_batch_norm=message.freeze_batchnorm, seed=seed
    )
    inputs = tf_keras.Input((*input_size, 3), name="image")
    padded = pad_to_multiple(inputs, message.feature_extractor.pad_to_multiple)
    maps = build_feature_maps(message.feature_extractor, padded, layers, where)
    outputs = HeadOutputs(
        anchors_per_location=generator.num_anchors_per_location(),
        num_class_slots=message.num_classes + int(message.add_background_class),
        code_size=plan.code_size,
    )
    if len(maps) != len(outputs.anchors_per_location):
        raise ConfigError(
            f"expected as many feature maps as the anchor generator has layers,"
            f" {len(outputs.anchors_per_location)}, found {len(maps)}; make their levels equal",
            where=where,
        )
    if not all(outputs.anchors_per_location):
        raise ConfigError(
            "expected one anchor or more at each place of every feature map, found none; give aspect_ratios",
            where="model.ssd.anchor_generator",
        )
    predictions = plan.head(maps, layers, outputs)
    return BuiltNetwork(
        network=tf_keras.Model(inputs, list(predictions), name="detector"),
        anchors=_lay_anchors(generator, maps, input_size),
        penalties=layers.penalties,
    )


def _lay_anchors(
    generator: AnchorGenerator, feature_maps: list[tf.Tensor], input_size: tuple[int, int]
) -> np.ndarray:
    if not generator.normalised:
        raise ConfigError(
            "expected anchors as fractions of the image, found anchors in pixels;"
            " set normalize_coordinates: true",
            where="model.ssd.anchor_generator",
        )
    shapes = [(features.shape[1], features.shape[2]) for features in feature_maps]
    anchors = generator.generate(shapes, *input_size)
    return np.concatenate([level.numpy() for level in anchors], axis=0).astype(np.float32)
