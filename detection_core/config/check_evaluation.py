"""Metrics that cannot be measured, and contradictions inside eval_config."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from detection_core.config.legacy.tensorflow_1 import RENAMED_METRICS, renamed_metrics
from detection_core.config.problems import Problem
from detection_core.config.suggestions import near_names
from detection_core.protos.eval_pb2 import EvalConfig
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig

MEASURED = (
    "coco_detection_metrics",
    "oid_V2_detection_metrics",
    "oid_challenge_detection_metrics",
    "pascal_voc_detection_metrics",
    "precision_at_recall_detection_metrics",
    "weighted_pascal_voc_detection_metrics",
)
_MASKS = "detectors here find boxes, not masks; use {}"

NOT_MEASURED: Mapping[str, str] = {
    "coco_keypoint_metrics": "detectors here find boxes, not keypoints; use coco_detection_metrics",
    "coco_mask_metrics": _MASKS.format("coco_detection_metrics"),
    "coco_panoptic_metrics": _MASKS.format("coco_detection_metrics"),
    "lvis_mask_metrics": _MASKS.format("coco_detection_metrics"),
    "oid_challenge_segmentation_metrics": _MASKS.format("oid_challenge_detection_metrics"),
    "pascal_voc_instance_segmentation_metrics": _MASKS.format("pascal_voc_detection_metrics"),
    "weighted_pascal_voc_instance_segmentation_metrics": _MASKS.format(
        "weighted_pascal_voc_detection_metrics"
    ),
}
"""Sets of metrics of the Object Detection API that no detector here could have a value of, and why."""


def check_evaluation(config: TrainEvalPipelineConfig) -> Iterator[Problem]:
    """Find sets of metrics that cannot be measured, and groups of classes and colours that say nothing."""
    message = config.eval_config
    for i, name in enumerate(message.metrics_set):
        if name not in MEASURED:
            path = f"eval_config.metrics_set[{i}]"
            yield Problem(path=path, message=f"expected a set of metrics, found {name!r}; {_remedy(name)}")
    for group, members in message.super_categories.items():
        if not group or not all(name.strip() for name in members.split(",")):
            text = f"expected class names with commas between them, found {members!r}; name the classes"
            yield Problem(path=f"eval_config.super_categories[{group}]", message=text)
    if message.visualize_groundtruth_boxes:
        yield from _colour(message)


def _remedy(name: str) -> str:
    if name in NOT_MEASURED:
        return NOT_MEASURED[name]
    if name in RENAMED_METRICS:
        return renamed_metrics(name)
    near = near_names(name, MEASURED)
    return f"did you mean {near[0]}?" if near else "use coco_detection_metrics"


def _colour(message: EvalConfig) -> Iterator[Problem]:
    from PIL import ImageColor

    name = message.groundtruth_box_visualization_color
    try:
        ImageColor.getrgb(name)
    except ValueError:
        text = f'expected a colour, such as "black" or "#ff8000", found {name!r}; correct it'
        yield Problem(path="eval_config.groundtruth_box_visualization_color", message=text)
