"""Check eval_config: metrics that cannot be measured, and contradictions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from detection_core.allowed_values import FRACTION, POSITIVE, up_to
from detection_core.config.legacy.tensorflow_1 import RENAMED_METRICS, renamed_metrics
from detection_core.config.metric_names import KEYPOINT_SET, REGISTERED_SETS
from detection_core.config.suggestions import did_you_mean
from detection_core.detectors.rules import Rules
from detection_core.errors import Problem
from detection_core.protos.eval_pb2 import CocoKeypointMetrics, EvalConfig

MEASURED = (
    "coco_detection_metrics",
    "coco_keypoint_metrics",
    "coco_mask_metrics",
    "lvis_mask_metrics",
    "oid_V2_detection_metrics",
    "oid_challenge_detection_metrics",
    "oid_challenge_segmentation_metrics",
    "pascal_voc_detection_metrics",
    "pascal_voc_instance_segmentation_metrics",
    "precision_at_recall_detection_metrics",
    "weighted_pascal_voc_detection_metrics",
    "weighted_pascal_voc_instance_segmentation_metrics",
)

NOT_MEASURED: Mapping[str, str] = {
    "coco_panoptic_metrics": "detectors here find objects, not every pixel's class; use coco_mask_metrics",
}
"""Metric sets of the Object Detection API that no detector here can produce, with reasons."""


_SIDED = {"ear": 0.035, "eye": 0.025, "shoulder": 0.079, "elbow": 0.072, "wrist": 0.062, "hip": 0.107}
_TOLERANCES: Mapping[str, float] = {
    "nose": 0.026,
    **{
        f"{side}_{part}": value
        for part, value in (*_SIDED.items(), ("knee", 0.087), ("ankle", 0.089))
        for side in ("left", "right")
    },
}
"""Tolerances of the keypoints of COCO's persons, a keypoint's label to its sigma."""


def _keypoints(message: CocoKeypointMetrics, path: str) -> Iterator[Problem]:
    for label, found in sorted(message.keypoint_label_to_sigmas.items()):
        own = _TOLERANCES.get(label)
        if own is None or abs(found - own) > _ROUNDING:
            wanted = "a keypoint of COCO's persons" if own is None else f"{own:g}, COCO's"
            text = f"expected {wanted}, found {label[:80]!r} with {found:g}; remove parameterized_metric and"
            where = f"{path}.keypoint_label_to_sigmas[{label[:80]}]"
            yield Problem(path=where, message=f"{text} use {KEYPOINT_SET}, whose other tolerances are 0.05")


_ROUNDING = 1e-6


def _evaluation(message: EvalConfig, path: str) -> Iterator[Problem]:
    for i, name in enumerate(message.metrics_set):
        if name not in MEASURED and name not in REGISTERED_SETS:
            where = f"{path}.metrics_set[{i}]"
            yield Problem(path=where, message=f"expected a set of metrics, found {name!r}; {_remedy(name)}")
    for group, members in message.super_categories.items():
        if not group or not all(name.strip() for name in members.split(",")):
            text = f"expected class names with commas between them, found {members!r}; name the classes"
            yield Problem(path=f"{path}.super_categories[{group}]", message=text)
    if message.visualize_groundtruth_boxes:
        yield from _colour(message, path)


def _remedy(name: str) -> str:
    if name in NOT_MEASURED:
        return NOT_MEASURED[name]
    if name in RENAMED_METRICS:
        return renamed_metrics(name)
    return did_you_mean(name, (*MEASURED, *REGISTERED_SETS), "use coco_detection_metrics")


def _colour(message: EvalConfig, path: str) -> Iterator[Problem]:
    from PIL import ImageColor

    name = message.groundtruth_box_visualization_color
    try:
        ImageColor.getrgb(name)
    except ValueError:
        text = f'expected a colour, such as "black" or "#ff8000", found {name!r}; correct it'
        yield Problem(path=f"{path}.groundtruth_box_visualization_color", message=text)


_TF1_LOOP = "it belongs to the evaluation loop of TensorFlow 1; one evaluation follows each training here"

RULES: Mapping[str, Rules] = {
    "KeypointEdge": Rules(ranges={"start": up_to(10_000, 0), "end": up_to(10_000, 0)}),
    "ParameterizedMetric": Rules(oneofs=("parameterized_metric",)),
    "CocoKeypointMetrics": Rules(
        check=_keypoints,
        without_effect={"class_label": "every class that has keypoints is measured by them"},
    ),
    "EvalConfig": Rules(
        ranges={
            "batch_size": POSITIVE,
            "min_score_threshold": FRACTION,
            "max_num_boxes_to_visualize": up_to(100_000, 0),
            "num_visualizations": up_to(100_000, 0),
            "recall_lower_bound": FRACTION,
            "recall_upper_bound": FRACTION,
        },
        check=_evaluation,
        without_effect={
            "batch_size": "images are measured one at a time, as the exported detector sees them",
            "num_examples": "every image of the split is measured",
            "max_evals": _TF1_LOOP,
            "save_graph": _TF1_LOOP,
            "eval_master": _TF1_LOOP,
            "visualization_export_dir": "pictures are written into the evaluation's own folder",
            "export_path": "metrics are written into the evaluation's own folder",
            "keep_image_id_for_visualization_export": "pictures/index.json names the image of each picture",
            "retain_original_images": "images are measured as they were recorded",
            "use_dummy_loss_in_eval": "an evaluation computes no loss",
        },
        refused={
            "ignore_groundtruth": "measuring needs ground truth; run `detflow predict` to detect only",
            "retain_original_image_additional_channels": "images have three channels; remove it",
            "force_no_resize": "the exported detector that is measured resizes images itself; remove it",
        },
    ),
}
