"""DetectionModel messages -> detectors."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from detection_core.builders.anchors import build_anchor_generator
from detection_core.builders.heads import HeadPlan, build_head
from detection_core.builders.losses import build_losses
from detection_core.builders.post_processing import build_post_processing
from detection_core.builders.training_labels import foreground_classes
from detection_core.config.check import find_problems
from detection_core.config.messages.image_resizers import network_size, one_size_problems
from detection_core.config.messages.table import RULES
from detection_core.config.problems import Problem, raise_first
from detection_core.config.refusals import find_refused
from detection_core.detectors.base import DetectionModel
from detection_core.detectors.parts.anchor_criterion import AnchorCriterion
from detection_core.detectors.parts.anchors.base import AnchorGenerator
from detection_core.detectors.parts.heads.predictions import HeadOutputs
from detection_core.detectors.parts.layers.layer_hyperparams import Penalty
from detection_core.detectors.parts.layers.network_layers import NetworkLayers, pad_to_multiple
from detection_core.detectors.parts.targets.anchor_targets import AnchorTargetAssigner
from detection_core.detectors.ssd.feature_maps import build_feature_maps, find_backbone
from detection_core.detectors.ssd.model import SsdModel, SsdOptions, SsdParts
from detection_core.detectors.ssd.target_assigner import build_target_assigner
from detection_core.errors import ConfigError
from detection_core.protos import image_resizer_pb2, model_pb2, ssd_pb2
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig


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
        reason = RULES["DetectionModel"].refused.get(str(arm), "set one")
        raise ConfigError(f"expected {' or '.join(MODELS)}, found {arm or 'none'}: {reason}", where="model")
    raise_first(_problems(message))
    return MODELS[arm](getattr(message, arm), f"model.{arm}", seed)


def _problems(message: model_pb2.DetectionModel) -> Iterator[Problem]:
    """Find whatever the check of a whole config finds in its model: what follows only translates."""
    config = TrainEvalPipelineConfig(model=message)
    found = itertools.chain(find_refused(config), find_problems(config))
    return (problem for problem in found if problem.path.startswith("model"))


def _build_ssd(message: ssd_pb2.Ssd, where: str, seed: int | None) -> SsdModel:
    input_size = network_input_size(message.image_resizer, f"{where}.image_resizer")
    generator = build_anchor_generator(message.anchor_generator, f"{where}.anchor_generator")
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
    raise_first(one_size_problems(message, where))
    size = network_size(message)
    if size is None:
        raise ConfigError("expected an image_resizer, found none; set fixed_shape_resizer", where=where)
    return size


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
    predictions = plan.head(maps, layers, outputs)
    return BuiltNetwork(
        network=tf_keras.Model(inputs, list(predictions), name="detector"),
        anchors=_lay_anchors(generator, maps, input_size),
        penalties=layers.penalties,
    )


def _lay_anchors(
    generator: AnchorGenerator, feature_maps: list[tf.Tensor], input_size: tuple[int, int]
) -> np.ndarray:
    shapes = [(features.shape[1], features.shape[2]) for features in feature_maps]
    anchors = generator.generate(shapes, *input_size)
    return np.concatenate([level.numpy() for level in anchors], axis=0).astype(np.float32)
