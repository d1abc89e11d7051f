"""What an evaluation measures, demands and draws, and what a config's `eval_config` says of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from detection_core.evaluation.drawing import named_colour
from detection_core.evaluation.metric_sets import MetricOptions
from detection_core.evaluation.pictures import PictureOptions
from detection_core.protos.eval_pb2 import EvalConfig

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


def with_eval_config(options: EvaluateOptions, message: EvalConfig) -> EvaluateOptions:
    """Return the options with what an `eval_config` says of metrics and pictures.

    Args:
        options: its number of pictures goes before the message's, unless it is `AS_CONFIGURED`.
        message: a checked one.
    """
    asked = options.pictures
    return dataclasses.replace(
        options,
        pictures=message.num_visualizations if asked == AS_CONFIGURED else asked,
        min_score=message.min_score_threshold if message.HasField("min_score_threshold") else None,
        drawing=_drawing(message),
        metrics=_metrics(message),
    )


def _drawing(message: EvalConfig) -> PictureOptions:
    colour = named_colour(message.groundtruth_box_visualization_color)
    return PictureOptions(
        most_boxes=message.max_num_boxes_to_visualize,
        names=not message.skip_labels,
        scores=not message.skip_scores,
        truth_colour=colour if message.visualize_groundtruth_boxes else None,
    )


def _metrics(message: EvalConfig) -> MetricOptions:
    groups = {
        group: tuple(name.strip() for name in members.split(","))
        for group, members in message.super_categories.items()
    }
    return MetricOptions(
        sets=tuple(message.metrics_set),
        per_category=message.include_metrics_per_category,
        all_per_category=message.all_metrics_per_category,
        groups=groups,
        only_labelled=message.skip_predictions_for_unlabeled_class,
        recall_bounds=(message.recall_lower_bound, message.recall_upper_bound),
    )
