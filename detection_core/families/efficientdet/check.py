"""Check EfficientDet messages."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from detection_core.config.automl.hparams import MODELS
from detection_core.config.automl.hyperparameters import ACTIVATIONS, BACKBONES
from detection_core.config.messages import sizes
from detection_core.config.messages.extractors import level_problems
from detection_core.detectors.rules import read_rules
from detection_core.errors import Problem
from detection_core.families.efficientdet.settings import (
    PYRAMIDS,
    model_fields,
    node_problems,
    set_fields,
    settings_of,
)
from detection_core.protos.efficientdet_pb2 import EfficientDet

WEIGHT_METHODS = ("fastattn", "attn", "channel_fastattn", "channel_attn", "sum")
POOLING_TYPES = ("max", "avg")
HEADS = ("object_detection", "segmentation")
IOU_LOSSES = ("iou", "giou", "diou", "ciou")
NMS_METHODS = ("gaussian", "hard")
NMS_MODES = ("global", "per_class", "combined", "numpy_per_class")


def _choice(message: Any, path: str, field: str, known: tuple[str, ...]) -> Iterator[Problem]:
    value = getattr(message, field)
    for found in value if not isinstance(value, str) else [value] if value else []:
        if found not in known:
            text = f"expected one of {', '.join(known)}, found {found[:40]!r}; correct the name"
            yield Problem(path=f"{path}.{field}", message=text)


_CHOICES = {
    "name": tuple(MODELS),
    "backbone_name": BACKBONES,
    "act_type": ACTIVATIONS,
    "fpn_name": tuple(PYRAMIDS),
    "fpn_weight_method": WEIGHT_METHODS,
    "pooling_type": POOLING_TYPES,
    "heads": HEADS,
    "iou_loss_type": IOU_LOSSES,
}


def problems(message: EfficientDet, path: str) -> Iterator[Problem]:
    """Find unknown names, and fields that contradict each other."""
    if not message.name:
        text = f"expected one of {', '.join(MODELS)}, found none; name the model whose sizes are to hold"
        yield Problem(path=f"{path}.name", message=text)
    problems = [
        problem for field, known in _CHOICES.items() for problem in _choice(message, path, field, known)
    ]
    yield from problems
    yield from sizes.one_size_problems(message.image_resizer, f"{path}.image_resizer")
    yield from _expression_problems(message, path)
    if message.name and not problems:
        yield from _level_problems(message, path)


def _expression_problems(message: EfficientDet, path: str) -> Iterator[Problem]:
    try:
        re.compile(message.var_freeze_expr)
    except re.error as error:
        text = f"expected a regular expression, found one that does not parse ({error}); correct it"
        yield Problem(path=f"{path}.var_freeze_expr", message=text)


def _level_problems(message: EfficientDet, path: str) -> Iterator[Problem]:
    values = {**model_fields(message.name), **set_fields(message)}
    low, high = values["min_level"], values["max_level"]
    wrong = list(level_problems((low, high), path, least=1, several=True))
    yield from wrong
    if wrong:
        return
    scales, levels = len(values["anchor_scale"]), high - low + 1
    if scales not in (1, levels):
        text = f"expected one scale, or one for each of {levels} levels, found {scales}; give 1 or {levels}"
        yield Problem(path=f"{path}.anchor_scale", message=text)
    yield from node_problems(values.get("nodes", ()), low, high, f"{path}.fpn_nodes")
    side = values["image_size"]
    size = sizes.network_size(message.image_resizer) or (side, side)
    yield from _shape_problems(size, range(low, high), path)
    if "segmentation" in values["heads"]:
        yield from _segmentation_problems(size, high, values["heads"], path)


def _segmentation_problems(
    size: tuple[int, int], high: int, heads: Sequence[str], path: str
) -> Iterator[Problem]:
    if "object_detection" not in heads:
        text = "expected object_detection beside segmentation, as detectors find objects, found segmentation"
        yield Problem(path=f"{path}.heads", message=f"{text} alone; add it")
    if any(side % 2**high for side in size):
        text = (
            f"expected sides that are multiples of {2**high}, because the segmentation head doubles"
            f" feature maps, found {size[0]} x {size[1]}; change them, or lower max_level"
        )
        yield Problem(path=f"{path}.image_resizer", message=text)


def _shape_problems(size: tuple[int, int], levels: range, path: str) -> Iterator[Problem]:
    """Find an input so narrow that between two levels one side stays equal and the other does not."""
    for level in levels:
        finer, coarser = (tuple(-(-side >> each) for side in size) for each in (level, level + 1))
        if (finer[0] > coarser[0]) != (finer[1] > coarser[1]):
            found = " and ".join(f"{rows} x {columns}" for rows, columns in (finer, coarser))
            text = (
                f"expected maps that halve in both directions, found {found} on levels {level} and"
                f" {level + 1}; make the input larger, or lower max_level"
            )
            yield Problem(path=f"{path}.image_resizer", message=text)
            return


def size_problems(message: EfficientDet, path: str, size: tuple[int, int]) -> Iterator[Problem]:
    """Find more anchors, scores or channels of a head than fit into memory."""
    # A message with other problems cannot be resolved; those are reported instead.
    if any(problems(message, path)):
        return
    settings = settings_of(message)
    count = settings.anchors_per_location
    anchors = count * sum(rows * columns for rows, columns in settings.map_shapes(size))
    laid = sizes.Laid(anchors, count, f"{path}.num_scales")
    yield from sizes.prediction_problems(laid, message.num_classes, f"{path}.num_classes")


def tflite_problems(message: EfficientDet, path: str) -> Iterator[Problem]:
    """Find obstacles to exporting to TensorFlow Lite; without a resizer, images are stretched to one size."""
    if message.HasField("image_resizer"):
        yield from sizes.fixed_size_problems(message.image_resizer, path)


def _nms(message: Any, path: str) -> Iterator[Problem]:
    yield from _choice(message, path, "method", NMS_METHODS)
    yield from _choice(message, path, "mode", NMS_MODES)


RULES = read_rules(__file__, {"EfficientDet": problems, "EfficientDet.NonMaxSuppression": _nms})
