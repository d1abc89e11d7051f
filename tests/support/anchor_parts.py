"""Parts of a training on anchors, with the numbers that several tests use."""

from typing import Any

from detection_core.parts.box_coders import FasterRcnnBoxCoder
from detection_core.parts.matchers import ArgMaxMatcher
from detection_core.parts.samplers import HardExampleMiner

FASTER = FasterRcnnBoxCoder(y_scale=10.0, x_scale=10.0, height_scale=5.0, width_scale=5.0)


def argmax_matcher(
    matched: float | None = 0.5, unmatched: float | None = 0.5, lower: bool = True, force: bool = True
) -> ArgMaxMatcher:
    """Matches above one threshold, is negative below the other, and may force a match for each object."""
    thresholds = {"matched_threshold": matched, "unmatched_threshold": unmatched}
    flags = {"negatives_lower_than_unmatched": lower, "force_match_for_each_row": force}
    return ArgMaxMatcher(**thresholds, **flags)


def miner(**changes: Any) -> HardExampleMiner:
    """Keeps six hard anchors of an image, and two negatives for each positive."""
    options = {"num_hard_examples": 6, "iou_threshold": 0.5, "loss_type": "BOTH"}
    options |= {"max_negatives_per_positive": 2, "min_negatives_per_image": 1}
    options |= {"classification_weight": 2.0, "localization_weight": 0.5}
    return HardExampleMiner(**options | changes)
