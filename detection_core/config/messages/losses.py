"""Losses on box codes and class logits, and the selection of examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from detection_core.allowed_values import NOT_NEGATIVE, POSITIVE, POSITIVE_FRACTION
from detection_core.config.messages.registered import registered_problems
from detection_core.detectors.rules import Rules
from detection_core.errors import Problem
from detection_core.protos.losses_pb2 import ClassificationLoss, LocalizationLoss, Loss

_ANCHORWISE = {"anchorwise_output": "losses are always kept one for each anchor"}
_MINING = "only expected_loss_weights reads it, which is refused"


def _loss(loss: Loss, path: str) -> Iterator[Problem]:
    """Find example selections that exclude each other."""
    if loss.HasField("hard_example_miner") and loss.classification_loss.HasField("weighted_sigmoid_focal"):
        text = "expected none beside weighted_sigmoid_focal, which weighs examples itself; remove one"
        yield Problem(path=f"{path}.hard_example_miner", message=text)
    if loss.HasField("random_example_sampler") and loss.HasField("hard_example_miner"):
        text = "expected hard_example_miner or random_example_sampler, found both; remove one"
        yield Problem(path=f"{path}.random_example_sampler", message=text)


def _classification(message: ClassificationLoss, path: str) -> Iterator[Problem]:
    if message.HasField("registered"):
        yield from registered_problems("classification_loss", message.registered, f"{path}.registered")


def _localization(message: LocalizationLoss, path: str) -> Iterator[Problem]:
    if message.HasField("registered"):
        yield from registered_problems("localization_loss", message.registered, f"{path}.registered")


RULES: Mapping[str, Rules] = {
    "Loss": Rules(
        ranges={"classification_weight": NOT_NEGATIVE, "localization_weight": NOT_NEGATIVE},
        parts=("localization_loss", "classification_loss"),
        check=_loss,
        without_effect={"min_num_negative_samples": _MINING, "desired_negative_sampling_ratio": _MINING},
        refused={
            "expected_loss_weights": "the schema names two ways to weigh negatives, but the Object Detection "
            "API's published code has neither; use weighted_sigmoid_focal or hard_example_miner",
        },
    ),
    "Loss.EqualizationLoss": Rules(
        without_effect={"exclude_prefixes": "it goes with a weight, which is refused"},
        refused={
            "weight": "the Object Detection API's published code reads it and applies nothing, so its "
            "meaning is open; remove it"
        },
    ),
    "RandomExampleSampler": Rules(ranges={"positive_sample_fraction": POSITIVE_FRACTION}),
    "ClassificationLoss": Rules(oneofs=("classification_loss",), check=_classification),
    "BootstrappedSigmoidClassificationLoss": Rules(without_effect=_ANCHORWISE),
    "SigmoidFocalClassificationLoss": Rules(without_effect=_ANCHORWISE),
    "WeightedSigmoidClassificationLoss": Rules(without_effect=_ANCHORWISE),
    "WeightedSoftmaxClassificationLoss": Rules(without_effect=_ANCHORWISE),
    "WeightedSoftmaxClassificationAgainstLogitsLoss": Rules(without_effect=_ANCHORWISE),
    "LocalizationLoss": Rules(oneofs=("localization_loss",), check=_localization),
    "WeightedL2LocalizationLoss": Rules(without_effect=_ANCHORWISE),
    "WeightedSmoothL1LocalizationLoss": Rules(ranges={"delta": POSITIVE}, without_effect=_ANCHORWISE),
}
