"""Build anchors, box coders, matchers, losses and post-processing from their messages."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from detection_core.builders.anchor_grids import grid_of_pairs, listed_grid
from detection_core.builders.oneof import from_fields, oneof_builder, same_fields
from detection_core.config.messages.anchors import ssd_anchor_layers
from detection_core.config.messages.registered import build_registered
from detection_core.ops import iou as iou_ops
from detection_core.ops import post_processing
from detection_core.ops.iou import Similarity, ThresholdedIou, negative_squared_distance
from detection_core.ops.nms import NmsOptions
from detection_core.parts import box_coders, losses
from detection_core.parts.anchors import generators
from detection_core.parts.matchers import ArgMaxMatcher, GreedyBipartiteMatcher, Matcher
from detection_core.parts.samplers import BalancedSampler, HardExampleMiner
from detection_core.protos import (
    argmax_matcher_pb2,
    calibration_pb2,
    losses_pb2,
    post_processing_pb2,
    ssd_anchor_generator_pb2,
)


def _pairs(y_values: Sequence[int], x_values: Sequence[int]) -> tuple[tuple[float, float], ...]:
    return tuple((float(y), float(x)) for y, x in zip(y_values, x_values, strict=True))


def _ssd(message: ssd_anchor_generator_pb2.SsdAnchorGenerator) -> generators.AnchorGenerator:
    return from_fields(
        generators.SsdAnchorGenerator,
        message,
        num_layers=ssd_anchor_layers(message),
        strides=_pairs(message.height_stride, message.width_stride),
        offsets=_pairs(message.height_offset, message.width_offset),
    )


ANCHOR_GENERATORS: dict[str, Callable[[Any], generators.AnchorGenerator]] = {
    "flexible_grid_anchor_generator": lambda message: generators.FlexibleGridAnchorGenerator(
        grids=tuple(map(listed_grid, message.anchor_grid)), normalised=message.normalize_coordinates
    ),
    "grid_anchor_generator": lambda message: generators.FlexibleGridAnchorGenerator(
        grids=(grid_of_pairs(message),), normalised=False
    ),
    "multiscale_anchor_generator": same_fields(generators.MultiscaleAnchorGenerator),
    "ssd_anchor_generator": _ssd,
}
build_anchor_generator = oneof_builder("anchor_generator_oneof", ANCHOR_GENERATORS)

BOX_CODERS: dict[str, Callable[[Any], box_coders.BoxCoder]] = {
    "faster_rcnn_box_coder": same_fields(box_coders.FasterRcnnBoxCoder),
    "keypoint_box_coder": lambda message: from_fields(
        box_coders.KeypointBoxCoder, message, box_coder=from_fields(box_coders.FasterRcnnBoxCoder, message)
    ),
    "mean_stddev_box_coder": same_fields(box_coders.MeanStddevBoxCoder),
    "square_box_coder": same_fields(box_coders.SquareBoxCoder),
}
build_box_coder = oneof_builder("box_coder_oneof", BOX_CODERS)


# `use_matmul_gather` only selects a TPU kernel; matches do not depend on it.
def _argmax(message: argmax_matcher_pb2.ArgMaxMatcher) -> Matcher:
    unset = {"matched_threshold": None, "unmatched_threshold": None} if message.ignore_thresholds else {}
    return from_fields(ArgMaxMatcher, message, **unset)


MATCHERS: dict[str, Callable[[Any], Matcher]] = {
    "argmax_matcher": _argmax,
    "bipartite_matcher": same_fields(GreedyBipartiteMatcher),
}
build_matcher = oneof_builder("matcher_oneof", MATCHERS)

SIMILARITIES: dict[str, Callable[[Any], Similarity]] = {
    "ioa_similarity": lambda message: iou_ops.ioa,
    "iou_similarity": lambda message: iou_ops.iou,
    "neg_sq_dist_similarity": lambda message: negative_squared_distance,
    "thresholded_iou_similarity": same_fields(ThresholdedIou),
}
build_similarity = oneof_builder("region_similarity", SIMILARITIES)


def _focal(message: losses_pb2.SigmoidFocalClassificationLoss) -> losses.ClassificationLoss:
    # An unset alpha means no class balancing, unlike alpha 0.
    alpha = message.alpha if message.HasField("alpha") else None
    return losses.SigmoidFocalLoss(gamma=message.gamma, alpha=alpha)


# `anchorwise_output` has no effect: the Object Detection API ignores it as well.
CLASSIFICATION_LOSSES: dict[str, Callable[[Any], losses.ClassificationLoss]] = {
    "bootstrapped_sigmoid": same_fields(losses.BootstrappedSigmoidLoss),
    "penalty_reduced_logistic_focal_loss": same_fields(losses.PenaltyReducedFocalLoss),
    "weighted_dice_classification_loss": same_fields(losses.DiceLoss),
    "weighted_logits_softmax": same_fields(losses.SoftmaxAgainstLogitsLoss),
    "weighted_sigmoid": same_fields(losses.SigmoidLoss),
    "weighted_sigmoid_focal": _focal,
    "weighted_softmax": same_fields(losses.SoftmaxLoss),
    "registered": lambda message: build_registered("classification_loss", message),
}
build_classification_loss = oneof_builder("classification_loss", CLASSIFICATION_LOSSES)

LOCALIZATION_LOSSES: dict[str, Callable[[Any], losses.LocalizationLoss]] = {
    "l1_localization_loss": same_fields(losses.L1Loss),
    "weighted_giou": lambda message: losses.IouLoss(iou=iou_ops.matched_giou),
    "weighted_iou": lambda message: losses.IouLoss(iou=iou_ops.matched_iou),
    "weighted_l2": same_fields(losses.L2Loss),
    "weighted_smooth_l1": same_fields(losses.SmoothL1Loss),
    "registered": lambda message: build_registered("localization_loss", message),
}
build_localization_loss = oneof_builder("localization_loss", LOCALIZATION_LOSSES)


def build_hard_example_miner(message: losses_pb2.Loss) -> HardExampleMiner | None:
    """Build the miner of a Loss message, whose loss weights decide which anchors are hard; None: no miner."""
    if not message.HasField("hard_example_miner"):
        return None
    miner = message.hard_example_miner
    return from_fields(
        HardExampleMiner,
        miner,
        num_hard_examples=max(miner.num_hard_examples, 0),
        max_negatives_per_positive=max(miner.max_negatives_per_positive, 0),
        classification_weight=message.classification_weight,
        localization_weight=message.localization_weight,
    )


def build_losses(message: losses_pb2.Loss) -> losses.AnchorLosses:
    """Build the losses of an anchor-based detector, their weights and the selection of anchors."""
    sampled, sampler = message.HasField("random_example_sampler"), message.random_example_sampler
    fraction = sampler.positive_sample_fraction
    return losses.AnchorLosses(
        classification=build_classification_loss(message.classification_loss),
        localization=build_localization_loss(message.localization_loss),
        classification_weight=message.classification_weight,
        localization_weight=message.localization_weight,
        hard_example_miner=build_hard_example_miner(message),
        random_example_sampler=BalancedSampler(positive_fraction=fraction) if sampled else None,
    )


_logger = logging.getLogger(__name__)


def _piecewise(message: calibration_pb2.XYPairs) -> post_processing.PiecewiseLinear:
    points = [(pair.x, pair.y) for pair in message.x_y_pair]
    if sorted(points) != points:
        _logger.warning("calibration points are not in rising order of x; scores between them lose meaning")
    return post_processing.PiecewiseLinear(x=tuple(x for x, _ in points), y=tuple(y for _, y in points))


CALIBRATIONS: dict[str, Callable[[Any], post_processing.Elementwise]] = {
    "class_id_function_approximations": lambda message: post_processing.PerClass(
        functions={key: _piecewise(pairs) for key, pairs in message.class_id_xy_pairs_map.items()}
    ),
    "function_approximation": lambda message: _piecewise(message.x_y_pairs),
    "temperature_scaling_calibration": same_fields(post_processing.Temperature),
}
build_calibration = oneof_builder("calibrator", CALIBRATIONS)
"""A `Temperature` takes logits, the other calibrations scores."""

SCORE_ACTIVATIONS: dict[int, post_processing.Elementwise] = {
    post_processing_pb2.PostProcessing.IDENTITY: tf.identity,
    post_processing_pb2.PostProcessing.SIGMOID: tf.sigmoid,
    post_processing_pb2.PostProcessing.SOFTMAX: tf.nn.softmax,
}


def build_post_processing(message: post_processing_pb2.PostProcessing) -> post_processing.PostProcessing:
    """Build the conversion of raw predictions to detections from a checked message."""
    return post_processing.PostProcessing(
        score_converter=build_score_converter(message),
        nms=build_nms_options(message.batch_non_max_suppression),
    )


def build_score_converter(message: post_processing_pb2.PostProcessing) -> post_processing.ScoreConverter:
    """Build the conversion of class logits to scores, calibration included."""
    calibration = (
        build_calibration(message.calibration_config) if message.HasField("calibration_config") else None
    )
    on_logits = isinstance(calibration, post_processing.Temperature)
    return post_processing.ScoreConverter(
        activation=SCORE_ACTIVATIONS[message.score_converter],
        logit_scale=message.logit_scale,
        prepare=calibration if on_logits else None,
        calibrate=None if on_logits else calibration,
    )


# These only select a TPU or CPU kernel and do not change detections: use_static_shapes,
# use_partitioned_nms, use_cpu_nms and use_combined_nms. Every hard suppression here uses the combined kernel.
def build_nms_options(message: post_processing_pb2.BatchNonMaxSuppression) -> NmsOptions:
    """Build the options of non-max suppression."""
    return from_fields(
        NmsOptions,
        message,
        class_agnostic=message.use_class_agnostic_nms,
        soft_nms_sigma=0.0 if message.use_hard_nms else message.soft_nms_sigma,
    )
