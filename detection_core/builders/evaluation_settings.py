"""Options of an evaluation, and reading them from EvalConfig messages."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from PIL import ImageColor

from detection_core.artifacts.detector import PIPELINE_CONFIG, find_extra
from detection_core.config.load import load_pipeline_config
from detection_core.config.metric_names import measured_sets
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.evaluation.metric_sets import MetricOptions
from detection_core.evaluation.pictures import PictureOptions
from detection_core.ops.tile_options import TileOptions
from detection_core.protos.eval_pb2 import EvalConfig

AS_CONFIGURED = -1
"""Number of pictures: the config's value."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """Options of an evaluation.

    Attributes:
        split: name of the split.
        thresholds: metric to {"lower_bound", "upper_bound", "min_change"}.
        pictures: number of whole images to draw, and of mistakes of each kind to crop. `AS_CONFIGURED` takes
            the number from the config, if there is one.
        min_score: lowest score of the detections that are drawn; None: the score with the best F1.
        drawing: style of the pictures.
        metrics: what to report.
        slices: features to measure parts of the split by, as for `evaluation.slices.load_features`.
        images: number of images, for the progress lines; 0 if unknown.
        batch_size: most images of one size that are detected in one call, if the detector takes several.
        export_path: file to write the detections to as COCO results, if any.
        write_detections: also write the detections as COCO results, `coco_results.json`.
        tiles: detect also in tiles, for small objects; None: in whole images only.
        trust: run SavedModels even if their graphs do more than compute, such as reading files.
    """

    split: str = "eval"
    thresholds: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    pictures: int = 12
    min_score: float | None = None
    drawing: PictureOptions = dataclasses.field(default_factory=PictureOptions)
    metrics: MetricOptions = dataclasses.field(default_factory=MetricOptions)
    slices: str = ""
    images: int = 0
    batch_size: int = 1
    export_path: str = ""
    write_detections: bool = False
    tiles: TileOptions | None = None
    trust: bool = False


def with_eval_config(options: EvaluateOptions, config: CheckedConfig) -> EvaluateOptions:
    """Return the options with the metrics of `eval_config`, and its pictures where they set no number."""
    message = config.eval_config
    return dataclasses.replace(
        options,
        pictures=message.num_visualizations if options.pictures == AS_CONFIGURED else options.pictures,
        min_score=message.min_score_threshold if message.HasField("min_score_threshold") else None,
        drawing=_drawing(message),
        metrics=_metrics(message),
        batch_size=message.batch_size,
        export_path=message.export_path,
    )


def evaluated_label_map(config: CheckedConfig) -> str:
    """Return the path of the label map of the first eval_input_reader."""
    return config.eval_input_reader[0].label_map_path


def known_edges(path: str) -> tuple[tuple[int, int], ...]:
    """Return the pairs of keypoints between which pictures of a detector's findings have a line.

    They are those of its config's `eval_config.keypoint_edge`; none without a config, as for a .tflite file.
    """
    config = find_extra(path, PIPELINE_CONFIG)
    return _edges(load_pipeline_config(config).eval_config) if config else ()


def _edges(message: EvalConfig) -> tuple[tuple[int, int], ...]:
    return tuple((edge.start, edge.end) for edge in message.keypoint_edge)


def _drawing(message: EvalConfig) -> PictureOptions:
    red, green, blue = ImageColor.getrgb(message.groundtruth_box_visualization_color)[:3]
    return PictureOptions(
        most_boxes=message.max_num_boxes_to_visualize,
        names=not message.skip_labels,
        scores=not message.skip_scores,
        truth_colour=(red, green, blue) if message.visualize_groundtruth_boxes else None,
        keypoint_edges=_edges(message),
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
