"""Check CenterNet messages without TensorFlow."""

import math
from collections.abc import Iterator

from detection_core.allowed_values import POSITIVE
from detection_core.config.messages import sizes
from detection_core.detectors.rules import read_rules
from detection_core.errors import Problem
from detection_core.families.center_net import extractors
from detection_core.protos.center_net_pb2 import CenterNet

RANKINGS = ("min_distance", "score_distance_ratio", "score_scaled_distance_ratio", "gaussian_weighted")
_LOSSES = ("classification_loss", "localization_loss")
_TASK, _BOXES, _NMS = "keypoint_estimation_task", "object_detection_task", "batch_non_max_suppression"
_WEIGHTS = "object_center_params.keypoint_weights_for_center"
# Rankings that measure an object's box.
_BY_BOXES = RANKINGS[2:]


def _center_net(message: CenterNet, path: str) -> Iterator[Problem]:
    yield from sizes.one_size_problems(message.image_resizer, f"{path}.image_resizer")
    for field, what in (("task_name", "name"), ("keypoint_class_name", "class")):
        names = [getattr(task, field) for task in message.keypoint_estimation_task]
        for i, name in enumerate(names):
            if names.index(name) != i:
                text = f"expected a separate {what} for each task, found {name[:80]!r} twice; change one"
                yield Problem(path=f"{path}.{_TASK}[{i}].{field}", message=text)
    for i, task in enumerate(message.keypoint_estimation_task):
        if task.predict_depth and (message.num_classes > 1 or len(message.keypoint_estimation_task) > 1):
            text = "expected one class and one keypoint_estimation_task beside it, found more"
            where = f"{path}.{_TASK}[{i}].predict_depth"
            yield Problem(path=where, message=f"{text}; remove it, or the others")
    if message.HasField("post_processing"):
        yield from _suppression(message, f"{path}.post_processing")
    if not message.HasField(_BOXES):
        yield from _without_boxes(message, path)


def _without_boxes(message: CenterNet, path: str) -> Iterator[Problem]:
    """Find what needs boxes in a message of keypoint tasks only."""
    tasks = message.keypoint_estimation_task
    if message.object_center_params.keypoint_weights_for_center and len(tasks) > 1:
        text = f"expected one {_TASK}, whose keypoints the weights are of, found {len(tasks):,}"
        yield Problem(path=f"{path}.{_WEIGHTS}", message=f"{text}; remove the weights or tasks")
    for i, task in enumerate(tasks):
        if task.candidate_ranking_mode in _BY_BOXES:
            text = f"expected {_BOXES}, as {task.candidate_ranking_mode} measures boxes, found none"
            where = f"{path}.{_TASK}[{i}].candidate_ranking_mode"
            yield Problem(path=where, message=f"{text}; add it, or use score_distance_ratio")


def _suppression(message: CenterNet, path: str) -> Iterator[Problem]:
    """Find fields that suppression of peaks does not read, or cannot follow."""
    for field, _ in message.post_processing.ListFields():
        if field.name != _NMS:
            text = f"expected {_NMS} alone, as scores are those of the heatmap, found another"
            yield Problem(path=f"{path}.{field.name}", message=f"{text}; remove it")
    for i, task in enumerate(message.keypoint_estimation_task):
        if task.rescore_instances:
            text = "expected false beside post_processing, which takes the scores of classes, found true"
            where = f"{path.rpartition('.')[0]}.{_TASK}[{i}].rescore_instances"
            yield Problem(path=where, message=f"{text}; remove either")


def _keypoints(message: CenterNet.KeypointEstimation, path: str) -> Iterator[Problem]:
    for field, _ in message.loss.ListFields():
        if field.name not in _LOSSES:
            text = (
                f"expected {' and '.join(_LOSSES)}, which are all that a keypoint task reads, found another"
            )
            yield Problem(path=f"{path}.loss.{field.name}", message=f"{text}; remove it")
    for label, value in sorted(message.keypoint_label_to_std.items()):
        if not POSITIVE.holds(value):
            text = f"expected {POSITIVE.text}, found {value:g}; correct it"
            yield Problem(path=f"{path}.keypoint_label_to_std[{label[:80]}]", message=text)
    if message.candidate_ranking_mode not in RANKINGS:
        found = message.candidate_ranking_mode[:80]
        text = f"expected one of {', '.join(RANKINGS)}, found {found!r}; correct the name"
        yield Problem(path=f"{path}.candidate_ranking_mode", message=text)


def _head(message: CenterNet.PredictionHeadParams, path: str) -> Iterator[Problem]:
    layers, kernels = len(message.num_filters) or 1, len(message.kernel_sizes) or 1
    if layers != kernels:
        text = f"expected as many kernel_sizes as num_filters, {layers:,}, found {kernels:,}; give both"
        yield Problem(path=f"{path}.kernel_sizes", message=text)
    if layers > _MOST_LAYERS:
        text = f"expected at most {_MOST_LAYERS} convolutions, found {layers:,}; remove some"
        yield Problem(path=f"{path}.num_filters", message=text)


_MOST_LAYERS = 100


def keypoints(message: CenterNet) -> tuple[int, str] | None:
    """Return 0, as the label map has their number, and the field of the tasks; None without a task."""
    return (0, _TASK) if message.keypoint_estimation_task else None


def size_problems(message: CenterNet, path: str, size: tuple[int, int]) -> Iterator[Problem]:
    """Find an input that does not fit the extractor, and more scores than fit into memory."""
    yield from extractors.size_problems(message, path, size)
    pixels = math.prod(side // extractors.STRIDE for side in size)
    laid = sizes.Laid(pixels, 1, f"{path}.image_resizer")
    yield from sizes.prediction_problems(laid, message.num_classes, f"{path}.num_classes")


def tflite_problems(message: CenterNet, path: str) -> Iterator[Problem]:
    """Find obstacles to exporting a detector to TensorFlow Lite."""
    yield from sizes.fixed_size_problems(message.image_resizer, path)
    if message.HasField("post_processing"):
        text = "expected none, as a TensorFlow Lite file of CenterNet suppresses nothing, found one"
        yield Problem(path=f"{path}.post_processing", message=f"{text}; remove it")


RULES = read_rules(
    __file__,
    {
        "CenterNet": _center_net,
        "CenterNet.KeypointEstimation": _keypoints,
        "CenterNet.PredictionHeadParams": _head,
        "CenterNetFeatureExtractor": extractors.extractor_problems,
    },
)
