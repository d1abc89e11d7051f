"""Build the losses of an anchor-based detector from Loss messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from detection_core.builders.oneof import build_oneof, same_fields
from detection_core.config.messages.registered import build_registered
from detection_core.parts.losses import (
    AnchorLosses,
    BootstrappedSigmoidLoss,
    ClassificationLoss,
    DiceLoss,
    GiouLoss,
    IouLoss,
    L1Loss,
    L2Loss,
    LocalizationLoss,
    PenaltyReducedFocalLoss,
    SigmoidFocalLoss,
    SigmoidLoss,
    SmoothL1Loss,
    SoftmaxAgainstLogitsLoss,
    SoftmaxLoss,
)
from detection_core.parts.samplers import (
    BalancedSampler,
    HardExampleMiner,
    HardExampleOptions,
    MiningLoss,
)
from detection_core.protos import losses_pb2


def _focal(message: losses_pb2.SigmoidFocalClassificationLoss) -> ClassificationLoss:
    # An unset alpha means no class balancing, unlike alpha 0.
    alpha = message.alpha if message.HasField("alpha") else None
    return SigmoidFocalLoss(gamma=message.gamma, alpha=alpha)


# `anchorwise_output` has no effect: the Object Detection API ignores it as well.
CLASSIFICATION_LOSSES: dict[str, Callable[[Any], ClassificationLoss]] = {
    "bootstrapped_sigmoid": same_fields(BootstrappedSigmoidLoss),
    "penalty_reduced_logistic_focal_loss": same_fields(PenaltyReducedFocalLoss),
    "weighted_dice_classification_loss": same_fields(DiceLoss),
    "weighted_logits_softmax": same_fields(SoftmaxAgainstLogitsLoss),
    "weighted_sigmoid": same_fields(SigmoidLoss),
    "weighted_sigmoid_focal": _focal,
    "weighted_softmax": same_fields(SoftmaxLoss),
    "registered": lambda message: build_registered("classification_loss", message),
}

LOCALIZATION_LOSSES: dict[str, Callable[[Any], LocalizationLoss]] = {
    "l1_localization_loss": same_fields(L1Loss),
    "weighted_giou": same_fields(GiouLoss),
    "weighted_iou": same_fields(IouLoss),
    "weighted_l2": same_fields(L2Loss),
    "weighted_smooth_l1": same_fields(SmoothL1Loss),
    "registered": lambda message: build_registered("localization_loss", message),
}

MINING_LOSSES: dict[int, MiningLoss] = {
    losses_pb2.HardExampleMiner.BOTH: MiningLoss.BOTH,
    losses_pb2.HardExampleMiner.CLASSIFICATION: MiningLoss.CLASSIFICATION,
    losses_pb2.HardExampleMiner.LOCALIZATION: MiningLoss.LOCALIZATION,
}


def build_classification_loss(message: losses_pb2.ClassificationLoss) -> ClassificationLoss:
    """Build the classification loss of a checked message."""
    return build_oneof(message, "classification_loss", CLASSIFICATION_LOSSES)


def build_localization_loss(message: losses_pb2.LocalizationLoss) -> LocalizationLoss:
    """Build the localisation loss of a checked message."""
    return build_oneof(message, "localization_loss", LOCALIZATION_LOSSES)


def build_hard_example_miner(message: losses_pb2.Loss) -> HardExampleMiner | None:
    """Build the miner of a Loss message, whose loss weights decide which anchors are hard; None: no miner."""
    if not message.HasField("hard_example_miner"):
        return None
    miner = message.hard_example_miner
    options = HardExampleOptions(
        num_hard_examples=max(miner.num_hard_examples, 0),
        iou_threshold=miner.iou_threshold,
        loss=MINING_LOSSES[miner.loss_type],
        max_negatives_per_positive=max(miner.max_negatives_per_positive, 0),
        min_negatives_per_image=miner.min_negatives_per_image,
        classification_weight=message.classification_weight,
        localization_weight=message.localization_weight,
    )
    return HardExampleMiner(options)


def build_losses(message: losses_pb2.Loss) -> AnchorLosses:
    """Build the losses of an anchor-based detector, their weights and the selection of anchors."""
    return AnchorLosses(
        classification=build_classification_loss(message.classification_loss),
        localization=build_localization_loss(message.localization_loss),
        classification_weight=message.classification_weight,
        localization_weight=message.localization_weight,
        hard_example_miner=build_hard_example_miner(message),
        random_example_sampler=_sampler(message),
    )


def _sampler(message: losses_pb2.Loss) -> BalancedSampler | None:
    if not message.HasField("random_example_sampler"):
        return None
    return BalancedSampler(positive_fraction=message.random_example_sampler.positive_sample_fraction)
