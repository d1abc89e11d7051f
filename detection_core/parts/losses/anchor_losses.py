"""The losses of an anchor-based detector as one named thing.

The weighted sum of SSD, Liu et al., 2016, equation 1, https://arxiv.org/abs/1512.02325.
"""

from __future__ import annotations

import dataclasses

from detection_core.parts.losses.base import ClassificationLoss, LocalizationLoss
from detection_core.parts.samplers.balanced import BalancedSampler
from detection_core.parts.samplers.hard_examples import HardExampleMiner


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnchorLosses:
    """What to compute and how to weigh it.

    Attributes:
        classification: loss of class logits.
        localization: loss of boxes or box codes.
        classification_weight: factor of the summed classification loss.
        localization_weight: factor of the summed localisation loss.
        hard_example_miner: chooses the anchors that count; None counts all.
        random_example_sampler: draws the anchors whose classification counts; None counts all.
    """

    classification: ClassificationLoss
    localization: LocalizationLoss
    classification_weight: float
    localization_weight: float
    hard_example_miner: HardExampleMiner | None
    random_example_sampler: BalancedSampler | None
