"""Read evaluation options from EvalConfig messages."""

from __future__ import annotations

import dataclasses

from detection_core.config.metric_names import measured_sets
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.evaluation.drawing import named_colour
from detection_core.evaluation.metric_sets import MetricOptions
from detection_core.evaluation.pictures import PictureOptions
from detection_core.protos.eval_pb2 import EvalConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """The options of an evaluation.

    Attributes:
        label_map_path: of the first eval_input_reader; "" without one.
        pictures: number of images to draw.
        min_score: lowest score of drawn detections; None: the score with the best F1.
        drawing: style of the images.
        metrics: which metrics to report.
    """

    label_map_path: str
    pictures: int
    min_score: float | None
    drawing: PictureOptions
    metrics: MetricOptions


def build_evaluation_settings(config: CheckedConfig) -> EvaluationSettings:
    """Read the `eval_config` of a checked config, and the label map of its first reader."""
    message, readers = config.eval_config, config.eval_input_reader
    return EvaluationSettings(
        label_map_path=readers[0].label_map_path if readers else "",
        pictures=message.num_visualizations,
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
        keypoint_edges=tuple((edge.start, edge.end) for edge in message.keypoint_edge),
    )


def _metrics(message: EvalConfig) -> MetricOptions:
    groups = {
        group: tuple(name.strip() for name in members.split(","))
        for group, members in message.super_categories.items()
    }
    return MetricOptions(
        sets=measured_sets(message),
        per_category=message.include_metrics_per_category,
        all_per_category=message.all_metrics_per_category,
        groups=groups,
        only_labelled=message.skip_predictions_for_unlabeled_class,
        recall_bounds=(message.recall_lower_bound, message.recall_upper_bound),
    )
