"""Check eval_config: metrics that cannot be measured, and contradictions."""

from collections.abc import Iterator, Mapping

from detection_core.config.legacy.tensorflow_1 import RENAMED_METRICS, renamed_metrics
from detection_core.config.metric_names import KEYPOINT_SET, MEASURED, REGISTERED_SETS
from detection_core.config.suggestions import did_you_mean
from detection_core.detectors.rules import Check
from detection_core.errors import Problem
from detection_core.protos.eval_pb2 import CocoKeypointMetrics, EvalConfig

NOT_MEASURED: Mapping[str, str] = {
    "coco_panoptic_metrics": "detectors here find objects, not every pixel's class; use coco_mask_metrics"
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


CHECKS: Mapping[str, Check] = {"CocoKeypointMetrics": _keypoints, "EvalConfig": _evaluation}
