"""The settings of an EfficientDet: its message's fields, with the named model's values as defaults.

A cell of the feature network starts from one map per level, and each node adds earlier maps. A level's output
is its last node, or its input if it has no node.
"""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from detection_core.config.automl.hparams import MODELS, model_values
from detection_core.config.messages.sizes import network_size
from detection_core.errors import Problem
from detection_core.protos.efficientdet_pb2 import EfficientDet


class Node(NamedTuple):
    """A sum of maps on a level; inputs count from the cell's inputs, finest first, to earlier nodes."""

    level: int
    inputs: tuple[int, ...]


class _Cell:
    """The maps of a cell while nodes are added."""

    def __init__(self, low: int, high: int) -> None:
        self.nodes: list[Node] = []
        self.inputs = {level: level - low for level in range(low, high + 1)}
        self.last = dict(self.inputs)

    def add(self, level: int, *inputs: int) -> int:
        """Add a node and return its index; it becomes the last of its level."""
        self.nodes.append(Node(level, inputs))
        self.last[level] = len(self.inputs) + len(self.nodes) - 1
        return self.last[level]


def _bifpn(cell: _Cell, low: int, high: int) -> None:
    """Add nodes from the coarsest level to the finest and back, https://arxiv.org/abs/1911.09070."""
    for level in range(high - 1, low - 1, -1):
        cell.add(level, cell.inputs[level], cell.last[level + 1])
    for level in range(low + 1, high):
        cell.add(level, cell.inputs[level], cell.last[level], cell.last[level - 1])
    cell.add(high, cell.inputs[high], cell.last[high - 1])


def _qufpn(cell: _Cell, low: int, high: int) -> None:
    """Add a BiFPN, one in the opposite direction, and the sum of both at each level."""
    _bifpn(cell, low, high)
    first = dict(cell.last)
    cell.last = dict(cell.inputs)
    for level in range(low + 1, high + 1):
        cell.add(level, cell.inputs[level], cell.last[level - 1])
    for level in range(high - 1, low, -1):
        cell.add(level, cell.inputs[level], cell.last[level], cell.last[level + 1])
    cell.add(low, cell.inputs[low], cell.last[low + 1])
    second = dict(cell.last)
    for level in range(high, low - 1, -1):
        cell.add(level, first[level], second[level])


PYRAMIDS: Mapping[str, Callable[[_Cell, int, int], None]] = {
    "bifpn": _bifpn,
    "qufpn": _qufpn,
    "bifpn_dyn": _bifpn,
}
"""Name in google/automl's hyper-parameters to the function that adds the nodes."""


def named_nodes(name: str, low: int, high: int) -> tuple[Node, ...]:
    """Return the nodes of a feature network in `PYRAMIDS`, from the finest to a coarser level."""
    cell = _Cell(low, high)
    PYRAMIDS[name](cell, low, high)
    return tuple(cell.nodes)


def node_problems(nodes: Sequence[Node], low: int, high: int, path: str) -> Iterator[Problem]:
    """Find invalid nodes of a list in creation order."""
    for index, node in enumerate(nodes):
        if not low <= node.level <= high:
            text = f"expected a level from {low} to {high}, found {node.level}; change it"
            yield Problem(path=f"{path}[{index}].feat_level", message=text)
        made = high - low + 1 + index
        wrong = [place for place in node.inputs if not 0 <= place < made]
        if not node.inputs or wrong:
            found = f"found {wrong[0]}" if wrong else "found none"
            text = f"expected places from 0 to {made - 1}, the maps that are there before it, {found}"
            yield Problem(path=f"{path}[{index}].inputs_offsets", message=f"{text}; change them")


# Fields that are not hyper-parameters; the schema has their defaults.
_OWN = ("pooling_type", "sync_batch_norm", "restore_moving_averages")
# Replacements for hyper-parameters that are null in google/automl.
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
    """The resolved settings of a message: each field as set, else the named model's value.

    Attributes:
        image_size: rows and columns of the network's input if no resizer is set.
        anchor_shapes: factors of width and height of the anchors of each size.
        anchor_scale: of each level, in strides.
        nodes: of a cell of the feature network, in creation order.
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
        """Return the levels of the feature network, finest first; a level's stride is 2^level."""
        return range(self.min_level, self.max_level + 1)

    @property
    def anchors_per_location(self) -> int:
        """Return the number of anchors at each location of each level."""
        return self.num_scales * len(self.anchor_shapes)

    def freezes(self, variable: str) -> bool:
        """Tell whether a variable is frozen, by its name in google/automl."""
        return bool(self.var_freeze_expr and re.match(self.var_freeze_expr, f"{variable}:0"))

    def map_shapes(self, size: tuple[int, int]) -> list[tuple[int, int]]:
        """Return rows and columns of each level's map for an input size; each halving rounds up."""
        return [(-(-size[0] >> level), -(-size[1] >> level)) for level in self.levels]


def input_size(message: EfficientDet) -> tuple[int, int] | None:
    """Return the named model's rows and columns; None for an unknown name."""
    if message.name not in MODELS:
        return None
    side = MODELS[message.name]["image_size"]
    return side, side


def model_fields(name: str) -> dict[str, Any]:
    """Return the values of a named model, by field of the message."""
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
    """Return the settings of a checked message."""
    values = {**model_fields(message.name), **set_fields(message)}
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


def all_values(message: EfficientDet) -> dict[str, Any]:
    """Return the settings by name, including those of suppression."""
    nms = message.nms_configs
    suppression = {field.name: getattr(nms, field.name) for field in nms.DESCRIPTOR.fields}
    return {**dataclasses.asdict(settings_of(message)), "nms_configs": suppression}


def _each(values: tuple[float, ...], count: int) -> tuple[float, ...]:
    return values * count if len(values) == 1 else values


# Messages, and fields without a default among the hyper-parameters.
_OTHERS = ("image_resizer", "nms_configs", "num_classes")


def set_fields(message: EfficientDet) -> dict[str, Any]:
    """Return the fields of `EfficientDetSettings` that the message sets."""
    values: dict[str, Any] = {}
    for field, value in message.ListFields():
        if field.name == "fpn_nodes":
            values["nodes"] = tuple(Node(node.feat_level, tuple(node.inputs_offsets)) for node in value)
        elif field.name == "anchor_shapes":
            values["anchor_shapes"] = tuple((shape.width_factor, shape.height_factor) for shape in value)
        elif field.name not in _OTHERS and value != "":  # an empty text is none, as in the check
            values[field.name] = tuple(value) if field.is_repeated else value
    return values
