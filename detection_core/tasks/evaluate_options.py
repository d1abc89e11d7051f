"""What an evaluation measures, demands and draws, and what a config's `eval_config` says of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from detection_core.builders.evaluation_settings import build_evaluation_settings
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.evaluation.metric_sets import MetricOptions
from detection_core.evaluation.pictures import PictureOptions

AS_CONFIGURED = -1
"""Number of pictures: what the config says."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """What is measured, demanded and drawn.

    Attributes:
        split: name of the split.
        thresholds: metric to {"lower_bound", "upper_bound", "min_change"}.
        pictures: how many images to draw whole, and how many mistakes of each kind to crop; `AS_CONFIGURED`
            where a config is at hand.
        min_score: lowest score of the detections that are drawn; None: the one with the best F1.
        drawing: how pictures look.
        metrics: what to report.
        images: how many images there are, for the progress lines; 0 where that is not known.
        trust: run SavedModels even if their graphs do more than compute, such as reading files.
    """

    split: str = "eval"
    thresholds: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    pictures: int = 12
    min_score: float | None = None
    drawing: PictureOptions = dataclasses.field(default_factory=PictureOptions)
    metrics: MetricOptions = dataclasses.field(default_factory=MetricOptions)
    images: int = 0
    trust: bool = False


def with_eval_config(options: EvaluateOptions, config: CheckedConfig) -> EvaluateOptions:
    """Return the options with what a config's `eval_config` says of metrics and pictures.

    Args:
        options: its number of pictures goes before the config's, unless it is `AS_CONFIGURED`.
        config: a checked one.
    """
    found = build_evaluation_settings(config)
    return dataclasses.replace(
        options,
        pictures=found.pictures if options.pictures == AS_CONFIGURED else options.pictures,
        min_score=found.min_score,
        drawing=found.drawing,
        metrics=found.metrics,
    )
