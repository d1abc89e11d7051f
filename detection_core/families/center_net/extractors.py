"""The feature extractors of CenterNet: names, sizes and the range of their input."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from detection_core.bounded.plain_yaml import module_table
from detection_core.config.messages.extractors import lacking_problems
from detection_core.errors import Problem
from detection_core.protos.center_net_pb2 import CenterNetFeatureExtractor

STRIDE = 4
"""Pixels of the input per pixel of every extractor's feature map."""

Backbone = Literal["hourglass", "resnet_basic", "resnet_v1", "resnet_v2", "mobilenet_v2"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Extractor:
    """The parts of a feature extractor.

    Attributes:
        backbone: its kind.
        depth: number of layers; 0 if there is one depth only.
        neck: "fpn" adds finer maps on the way up, "deconvolution" only enlarges the last map, "" keeps the
            backbone's map.
        separable: whether the neck's convolutions are separable.
        scaling: conversion of pixels after the config's own: "caffe" (blue first, means subtracted),
            "unit_range" (-1 to 1), or "" for none.
        multiple: rows and columns of the input are multiples of it.
        options: fields of the message that it reads besides those of all extractors.
    """

    backbone: Backbone
    depth: int = 0
    neck: Literal["fpn", "deconvolution", ""] = ""
    separable: bool = False
    scaling: Literal["caffe", "unit_range", ""] = ""
    multiple: int = 32
    options: Sequence[str] = ()


_MOBILE_OPTIONS = ("depth_multiplier", "use_separable_conv", "upsampling_interpolation")

EXTRACTORS: Mapping[str, Extractor] = {
    name: Extractor(**entry) for name, entry in module_table(__file__).items()
}
"""Every extractor that a config can select by `type`."""


def extractor_problems(message: CenterNetFeatureExtractor, path: str) -> Iterator[Problem]:
    """Find options that the extractor lacks, and values that do not fit."""
    entry = EXTRACTORS.get(message.type)
    if entry is None:
        return  # The name is refused where every family's is.
    lacking = (name for name in _MOBILE_OPTIONS if name not in entry.options)
    yield from lacking_problems(message, path, lacking)
    if message.upsampling_interpolation not in INTERPOLATIONS:
        found = message.upsampling_interpolation[:80]
        text = f"expected {' or '.join(INTERPOLATIONS)}, found {found!r}; correct the name"
        yield Problem(path=f"{path}.upsampling_interpolation", message=text)
    if any(value <= 0 for value in message.channel_stds):
        text = f"expected numbers above 0, found {min(message.channel_stds):g}; correct it"
        yield Problem(path=f"{path}.channel_stds", message=text)


INTERPOLATIONS = ("nearest", "bilinear")


def size_problems(message: Any, path: str, size: tuple[int, int]) -> Iterator[Problem]:
    """Find an input that the extractor cannot halve often enough."""
    entry = EXTRACTORS.get(message.feature_extractor.type)
    if entry is None or not any(side % entry.multiple for side in size):
        return
    text = (
        f"expected rows and columns in multiples of {entry.multiple} for {message.feature_extractor.type},"
        f" found {size[0]:,} x {size[1]:,}; change the image_resizer"
    )
    yield Problem(path=f"{path}.image_resizer", message=text)
