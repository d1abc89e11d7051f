"""EfficientDet as google/automl published it: its models, what a message's fields come to, their rules."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from detection_core.allowed_values import CHANNELS, FRACTION, LAYERS, NOT_NEGATIVE, POSITIVE, Range, up_to
from detection_core.config.automl.defaults import MODELS, model_values
from detection_core.config.messages.feature_nodes import PYRAMIDS, Node, named_nodes, node_problems
from detection_core.config.messages.image_resizers import network_size, one_size_problems
from detection_core.config.rules import Rules
from detection_core.errors import Problem
from detection_core.protos.efficientdet_pb2 import EfficientDet

BACKBONES = (
    *(f"efficientnet-b{version}" for version in range(9)),
    "efficientnet-l2",
    *(f"efficientnet-lite{version}" for version in range(5)),
)
ACTIVATIONS = ("swish", "silu", "swish_native", "hswish", "relu", "relu6", "mish", "srelu")
WEIGHT_METHODS = ("fastattn", "attn", "channel_fastattn", "channel_attn", "sum")
POOLING_TYPES = ("max", "avg")
HEADS = ("object_detection", "segmentation")
IOU_LOSSES = ("iou", "giou", "diou", "ciou")
NMS_METHODS = ("gaussian", "hard")
NMS_MODES = ("global", "per_class", "combined", "numpy_per_class")
LAST_BACKBONE_LEVEL = 5
_MAX_LEVEL = 12

# Fields that no hyper-parameter is called by; the schema has their defaults.
_OWN = ("pooling_type", "sync_batch_norm", "restore_moving_averages")
# Hyper-parameters that are null there.
_NULLS: Mapping[str, Any] = {
    "fpn_name": "bifpn",
    "fpn_weight_method": "fastattn",
    "survival_prob": 0.0,
    "iou_loss_type": "",
    "positives_momentum": 0.0,
    "var_freeze_expr": "",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class EfficientDetSettings:
    """What a message comes to: each field as it is set, else as the named model has it.

    Attributes:
        image_size: rows and columns of the network's input where no resizer is set.
        anchor_shapes: factors of width and height of the anchors of each size.
        anchor_scale: of each level, in strides.
        nodes: of a cell of the feature network, in the order in which they are made.
        mean_rgb: of each channel.
        stddev_rgb: of each channel.
    """

    name: str
    num_classes: int
    image_size: tuple[int, int]
    backbone_name: str
    act_type: str
    mean_rgb: tuple[float, float, float]
    stddev_rgb: tuple[float, float, float]
    scale_range: bool
    min_level: int
    max_level: int
    fpn_num_filters: int
    fpn_cell_repeats: int
    fpn_weight_method: str
    nodes: tuple[Node, ...]
    separable_conv: bool
    apply_bn_for_resampling: bool
    conv_after_downsample: bool
    conv_bn_act_pattern: bool
    pooling_type: str
    box_class_repeats: int
    survival_prob: float
    heads: tuple[str, ...]
    seg_num_classes: int
    num_scales: int
    anchor_shapes: tuple[tuple[float, float], ...]
    anchor_scale: tuple[float, ...]
    label_smoothing: float
    alpha: float
    gamma: float
    delta: float
    box_loss_weight: float
    iou_loss_type: str
    iou_loss_weight: float
    weight_decay: float
    positives_momentum: float
    var_freeze_expr: str
    skip_crowd_during_training: bool
    sync_batch_norm: bool
    restore_moving_averages: bool

    @property
    def levels(self) -> range:
        """Levels of the feature network, finest first; a level's stride is two to its power."""
        return range(self.min_level, self.max_level + 1)

    @property
    def anchors_per_location(self) -> int:
        """Anchors at each place of each level."""
        return self.num_scales * len(self.anchor_shapes)

    def freezes(self, variable: str) -> bool:
        """Tell whether a variable is not trained, by the name that google/automl gives it."""
        return bool(self.var_freeze_expr and re.match(self.var_freeze_expr, f"{variable}:0"))

    def map_shapes(self, size: tuple[int, int]) -> list[tuple[int, int]]:
        """Return rows and columns of each level's map; each halving rounds up.

        Args:
            size: rows and columns of the network's input.
        """
        return [(-(-size[0] >> level), -(-size[1] >> level)) for level in self.levels]


def input_size(message: EfficientDet) -> tuple[int, int] | None:
    """Return the named model's rows and columns; None for a name that there is not."""
    if message.name not in MODELS:
        return None
    side = MODELS[message.name]["image_size"]
    return side, side


def _model_values(name: str) -> dict[str, Any]:
    """Return what a named model has in the fields of the message."""
    theirs = model_values(name)
    values = {field: theirs[field] for field in EfficientDet.DESCRIPTOR.fields_by_name if field in theirs}
    values.update({field: value for field, value in _NULLS.items() if values[field] is None})
    del values["nms_configs"], values["num_classes"]
    for field in ("mean_rgb", "stddev_rgb", "anchor_scale", "aspect_ratios", "heads"):
        value = values[field]
        values[field] = tuple(value) if isinstance(value, list) else (value,)
    for field in _OWN:
        values[field] = getattr(EfficientDet(), field)
    return {**values, "image_size": theirs["image_size"]}


def settings_of(message: EfficientDet) -> EfficientDetSettings:
    """Return what a checked message comes to."""
    values = {**_model_values(message.name), **_set_fields(message)}
    side = values.pop("image_size")
    levels = values["max_level"] - values["min_level"] + 1
    nodes = values.pop("nodes", None)
    pyramid = values.pop("fpn_name")
    ratios = values.pop("aspect_ratios")
    values.setdefault("anchor_shapes", tuple((ratio**0.5, ratio**-0.5) for ratio in ratios))
    return EfficientDetSettings(
        **{
            **values,
            "num_classes": message.num_classes,
            "image_size": network_size(message.image_resizer) or (side, side),
            "mean_rgb": _each(values["mean_rgb"], 3),
            "stddev_rgb": _each(values["stddev_rgb"], 3),
            "anchor_scale": _each(values["anchor_scale"], levels),
            "nodes": nodes or named_nodes(pyramid, values["min_level"], values["max_level"]),
        }
    )


def _each(values: tuple[float, ...], count: int) -> tuple[float, ...]:
    return values * count if len(values) == 1 else values


# Fields that no hyper-parameter gives a default, or that are messages of their own.
_OTHERS = ("image_resizer", "nms_configs", "num_classes")


def _set_fields(message: EfficientDet) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field, value in message.ListFields():
        if field.name == "fpn_nodes":
            values["nodes"] = tuple(Node(node.feat_level, tuple(node.inputs_offsets)) for node in value)
        elif field.name == "anchor_shapes":
            values["anchor_shapes"] = tuple((shape.width_factor, shape.height_factor) for shape in value)
        elif field.name not in _OTHERS:
            values[field.name] = tuple(value) if field.is_repeated else value
    return values


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


def efficientdet_problems(message: EfficientDet, path: str) -> Iterator[Problem]:
    """Find names that there are not, and fields that contradict each other.

    Args:
        message: the model.
        path: its field path.
    """
    if not message.name:
        text = f"expected one of {', '.join(MODELS)}, found none; name the model whose sizes are to hold"
        yield Problem(path=f"{path}.name", message=text)
    problems = [
        problem for field, known in _CHOICES.items() for problem in _choice(message, path, field, known)
    ]
    yield from problems
    yield from one_size_problems(message.image_resizer, f"{path}.image_resizer")
    yield from _channel_problems(message, path)
    yield from _expression_problems(message, path)
    if message.name and not problems:
        yield from _level_problems(message, path)


def _channel_problems(message: EfficientDet, path: str) -> Iterator[Problem]:
    for field in ("mean_rgb", "stddev_rgb"):
        found = len(getattr(message, field))
        if found not in (0, 1, 3):
            text = f"expected a number for all channels or one for each of R, G and B, found {found}"
            yield Problem(path=f"{path}.{field}", message=f"{text}; give 1 or 3")


def _expression_problems(message: EfficientDet, path: str) -> Iterator[Problem]:
    try:
        re.compile(message.var_freeze_expr)
    except re.error as error:
        text = f"expected a regular expression, found one that does not parse ({error}); correct it"
        yield Problem(path=f"{path}.var_freeze_expr", message=text)


def _level_problems(message: EfficientDet, path: str) -> Iterator[Problem]:
    values = {**_model_values(message.name), **_set_fields(message)}
    low, high = values["min_level"], values["max_level"]
    if not 1 <= low <= LAST_BACKBONE_LEVEL or not low < high <= _MAX_LEVEL:
        text = (
            f"expected 1 <= min_level <= {LAST_BACKBONE_LEVEL} and min_level < max_level <= {_MAX_LEVEL},"
            f" found {low} and {high}; change the levels"
        )
        yield Problem(path=f"{path}.min_level", message=text)
        return
    scales, levels = len(values["anchor_scale"]), high - low + 1
    if scales not in (1, levels):
        text = f"expected one scale, or one for each of {levels} levels, found {scales}; give 1 or {levels}"
        yield Problem(path=f"{path}.anchor_scale", message=text)
    yield from node_problems(values.get("nodes", ()), low, high, f"{path}.fpn_nodes")
    side = values["image_size"]
    size = network_size(message.image_resizer) or (side, side)
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
            f"expected sides that are multiples of {2**high}, as the segmentation head doubles maps, found"
            f" {size[0]} x {size[1]}; change them, or lower max_level"
        )
        yield Problem(path=f"{path}.image_resizer", message=text)


def _shape_problems(size: tuple[int, int], levels: range, path: str) -> Iterator[Problem]:
    """Find an input so narrow that of two levels one side is equal and the other is not."""
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


def _nms(message: Any, path: str) -> Iterator[Problem]:
    yield from _choice(message, path, "method", NMS_METHODS)
    yield from _choice(message, path, "mode", NMS_MODES)


_MOMENTUM = Range(-math.inf, 1, "a number up to 1")

RULES: Mapping[str, Rules] = {
    "EfficientDet": Rules(
        ("config.messages.efficientdet", "families.efficientdet.build", "builders.input_pipeline"),
        ranges={
            "stddev_rgb": POSITIVE,
            "fpn_num_filters": CHANNELS,
            "fpn_cell_repeats": LAYERS,
            "box_class_repeats": LAYERS,
            "survival_prob": FRACTION,
            "seg_num_classes": CHANNELS,
            "num_scales": up_to(100, 0),
            "aspect_ratios": POSITIVE,
            "anchor_scale": POSITIVE,
            "label_smoothing": FRACTION,
            "alpha": FRACTION,
            "gamma": NOT_NEGATIVE,
            "delta": NOT_NEGATIVE,
            "box_loss_weight": NOT_NEGATIVE,
            "iou_loss_weight": NOT_NEGATIVE,
            "weight_decay": NOT_NEGATIVE,
            "positives_momentum": _MOMENTUM,
        },
        check=efficientdet_problems,
    ),
    "EfficientDet.FeatureNode": Rules("config.messages.efficientdet"),
    "EfficientDet.AnchorShape": Rules(
        "config.messages.efficientdet",
        # 0 is the schema's value for a side that is not set.
        ranges={"width_factor": POSITIVE, "height_factor": POSITIVE},
    ),
    "EfficientDet.NonMaxSuppression": Rules(
        "families.efficientdet.build",
        ranges={
            "iou_thresh": FRACTION,
            "score_thresh": FRACTION,
            "sigma": NOT_NEGATIVE,
            "max_nms_inputs": up_to(100_000, 0),
            "max_output_size": up_to(10_000),
        },
        check=_nms,
    ),
}
