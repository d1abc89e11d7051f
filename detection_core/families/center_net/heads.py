"""Prediction heads of CenterNet: for each map of the extractor, one small network per kind of output."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

import tensorflow as tf

from detection_core.families.center_net.tracked_layers import TrackedLayers

OBJECT_CENTER = "object_center"
BOX_SCALE = "box/scale"
BOX_OFFSET = "box/offset"

HEADS = "_prediction_head_dict"
# What an object path has instead of a slash in a key.
_SLASH = ".S"


def keypoint_heads(task: str) -> tuple[str, str, str]:
    """Return the names of a keypoint task's heads: heatmap, offset, regression."""
    start = f"{task}/keypoint"
    return f"{start}/heatmap", f"{start}/offset", f"{start}/regression"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Head:
    """A prediction head.

    Attributes:
        name: of its output.
        outputs: channels of its output.
        channels: of its inner convolutions.
        kernels: of its inner convolutions.
        bias: initial bias of its output.
        separable: whether the inner convolutions are separable.
    """

    name: str
    outputs: int
    channels: tuple[int, ...] = (256,)
    kernels: tuple[int, ...] = (3,)
    bias: float = 0.0
    separable: bool = False


Predictions = Mapping[str, list[tf.Tensor]]
"""Name of a head -> its output for each map of the extractor, float32 [B, H / 4, W / 4, outputs].

The last one is that of the last map, which detections are made of.
"""


def build_heads(heads: Iterable[Head], maps: list[tf.Tensor], layers: TrackedLayers) -> list[tf.Tensor]:
    """Add the heads to a network; return their outputs, head by head and map by map."""
    return [_head(head, features, layers, index) for head in heads for index, features in enumerate(maps)]


def _head(head: Head, features: tf.Tensor, layers: TrackedLayers, index: int) -> tf.Tensor:
    path = f"{HEADS}/{head.name.replace('/', _SLASH)}/{index}"
    own = layers.under(f"head_{head.name}_{index}", at=path)
    convolution = own.separable if head.separable else own.conv
    for number, (channels, kernel) in enumerate(zip(head.channels, head.kernels, strict=True)):
        name = f"conv_{number}"
        features = convolution(features, name, channels, kernel, at=f"layer_with_weights-{number}")
        features = own.relu(features, name)
    last = f"layer_with_weights-{len(head.channels)}"
    return own.conv(features, "output", head.outputs, 1, bias=head.bias, at=last)


def by_head(heads: Iterable[Head], outputs: list[tf.Tensor]) -> dict[str, list[tf.Tensor]]:
    """Sort a network's outputs by head."""
    names = [head.name for head in heads]
    maps = len(outputs) // len(names)
    return {name: outputs[i * maps : (i + 1) * maps] for i, name in enumerate(names)}
