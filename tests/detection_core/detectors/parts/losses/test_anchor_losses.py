import dataclasses

import pytest

from detection_core.detectors.parts.losses.anchor_losses import AnchorLosses
from detection_core.detectors.parts.losses.sigmoid import SigmoidLoss
from detection_core.detectors.parts.losses.smooth_l1 import SmoothL1Loss


def test_every_part_is_named_and_fixed():
    losses = AnchorLosses(
        classification=SigmoidLoss(),
        localization=SmoothL1Loss(delta=1.0),
        classification_weight=1.0,
        localization_weight=2.0,
        hard_example_miner=None,
        random_example_sampler=None,
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        losses.localization_weight = 3.0
    with pytest.raises(TypeError):
        AnchorLosses(SigmoidLoss(), SmoothL1Loss(delta=1.0), 1.0, 2.0, None, None)
