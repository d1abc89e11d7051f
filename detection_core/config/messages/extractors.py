"""Feature extractors of one-stage detectors: their names, and which feature maps a message asks for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from detection_core.config.legacy.tensorflow_1 import (
    COUNTERPARTS,
    WITHOUT_COUNTERPART,
    with_counterpart,
    without_counterpart,
)
from detection_core.config.problems import Problem
from detection_core.config.suggestions import near_names
from detection_core.protos.ssd_pb2 import SsdFeatureExtractor

LAST_BACKBONE_LEVEL = 5
"""Coarsest level, of stride 2^5, that the backbones here offer."""
EXTRA_LAYERS = 4
"""Maps that the `extra_layers` neck can put on top of a backbone's."""
_FIRST_EXTRA_LEVEL = 4
_MAX_LEVEL = 12
_SHOWN = 80
_OLD = {*COUNTERPARTS, *WITHOUT_COUNTERPART}
"""Extractors that TensorFlow 1 had."""

COMBINE_METHODS = ("sum", "fast_attention", "weighted_sum", "attention")
"""How a node of a bidirectional pyramid may add up its inputs."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Extractor:
    """What a feature extractor's name says.

    Attributes:
        neck: "extra_layers", "fpn" or "bifpn".
        maps: names of the backbone's features that an `extra_layers` neck starts with, of strides 16 and 32.
        fixed: fields of the message that have to keep their defaults, as the extractor has no such option.
    """

    neck: str
    maps: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()


_RESNET = Extractor(neck="fpn", fixed=("use_depthwise", "use_explicit_padding"))
_EFFICIENTNET = Extractor(neck="bifpn", fixed=("depth_multiplier", "use_depthwise", "use_explicit_padding"))

EXTRACTORS: Mapping[str, Extractor] = {
    "ssd_mobilenet_v1_keras": Extractor(neck="extra_layers", maps=("level_4", "level_5")),
    "ssd_mobilenet_v1_fpn_keras": Extractor(neck="fpn"),
    "ssd_mobilenet_v2_keras": Extractor(neck="extra_layers", maps=("level_4_expanded", "level_5")),
    "ssd_mobilenet_v2_fpn_keras": Extractor(neck="fpn"),
    "ssd_resnet50_v1_fpn_keras": _RESNET,
    "ssd_resnet101_v1_fpn_keras": _RESNET,
    "ssd_resnet152_v1_fpn_keras": _RESNET,
    **{f"ssd_efficientnet-b{version}_bifpn_keras": _EFFICIENTNET for version in range(8)},
}
"""Every extractor that a config may name by `type`."""


def extractor_problems(message: SsdFeatureExtractor, path: str) -> Iterator[Problem]:
    """Find what is wrong with an extractor by itself.

    Args:
        message: the extractor.
        path: its field path.
    """
    entry = EXTRACTORS.get(message.type)
    if entry is None:
        yield from _unknown(message.type, f"{path}.type")
        return
    for name in entry.fixed:
        found, default = getattr(message, name), message.DESCRIPTOR.fields_by_name[name].default_value
        if found != default:
            text = f"expected {_text(default)}, as {message.type} has no such option, found {_text(found)}"
            yield Problem(path=f"{path}.{name}", message=f"{text}; remove the field")
    yield from _NECKS[entry.neck](entry, message, path)
    if message.min_depth < 1 and message.depth_multiplier < 1 / 8:
        text = (
            f"expected 1 or more beside a depth_multiplier of {message.depth_multiplier:g}, as layers would"
            f" be left without channels, found {message.min_depth}; 16 is usual"
        )
        yield Problem(path=f"{path}.min_depth", message=text)


def map_levels(message: SsdFeatureExtractor) -> range | None:
    """Return the levels of the feature maps, finest first; level l has stride 2^l. None: not known."""
    entry = EXTRACTORS.get(message.type)
    if entry is None:
        return None
    if entry.neck == "extra_layers":
        return range(_FIRST_EXTRA_LEVEL, _FIRST_EXTRA_LEVEL + message.num_layers)
    pyramid = getattr(message, entry.neck)
    return range(pyramid.min_level, pyramid.max_level + 1)


def map_shapes(message: SsdFeatureExtractor, rows: int, columns: int) -> list[tuple[int, int]]:
    """Return rows and columns of the feature maps of an image, finest first.

    Args:
        message: an extractor without problems.
        rows: of the network's input, pixels.
        columns: of it.
    """
    multiple = max(message.pad_to_multiple, 1)
    sides = [-(-side // multiple) * multiple for side in (rows, columns)]
    # Every halving rounds up, so that the order of halvings makes no difference.
    return [(-(-sides[0] >> level), -(-sides[1] >> level)) for level in map_levels(message) or ()]


def _text(value: float) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}"


def _unknown(name: str, path: str) -> Iterator[Problem]:
    if name in _OLD:
        text = with_counterpart(name) if name in COUNTERPARTS else without_counterpart(name)
        yield Problem(path=path, message=text)
        return
    if not name:
        return  # Said elsewhere, for every family.
    near = near_names(name[:_SHOWN], EXTRACTORS, limit=1)
    advice = f"did you mean {near[0]}?" if near else "use one of these"
    shown = repr(name) if len(name) <= _SHOWN else f"{name[:_SHOWN]!r}... ({len(name):,} characters)"
    yield Problem(path=path, message=f"expected one of {', '.join(EXTRACTORS)}, found {shown}; {advice}")


def _extra_layers(entry: Extractor, message: Any, path: str) -> Iterator[Problem]:
    most = len(entry.maps) + EXTRA_LAYERS
    if not 1 <= message.num_layers <= most:
        text = f"expected 1 to {most} feature maps, found {message.num_layers:,}; change num_layers"
        yield Problem(path=f"{path}.num_layers", message=text)


def _fpn(entry: Extractor, message: Any, path: str) -> Iterator[Problem]:
    low, high = message.fpn.min_level, message.fpn.max_level
    if not 2 <= low <= min(LAST_BACKBONE_LEVEL, high):
        text = (
            f"expected 2 <= min_level <= {LAST_BACKBONE_LEVEL} and min_level <= max_level, found {low} and"
            f" {high}; change the levels"
        )
        yield Problem(path=f"{path}.fpn.min_level", message=text)
    yield from _too_coarse(high, f"{path}.fpn.max_level")


def _bifpn(entry: Extractor, message: Any, path: str) -> Iterator[Problem]:
    pyramid, path = message.bifpn, f"{path}.bifpn"
    low, high = pyramid.min_level, pyramid.max_level
    if not 1 <= low <= LAST_BACKBONE_LEVEL or low >= high:
        text = (
            f"expected 1 <= min_level <= {LAST_BACKBONE_LEVEL} and min_level < max_level, found {low} and"
            f" {high}; change the levels"
        )
        yield Problem(path=f"{path}.min_level", message=text)
    yield from _too_coarse(high, f"{path}.max_level")
    for name in ("num_iterations", "num_filters"):
        if getattr(pyramid, name) < 1:
            text = (
                f"expected a positive number, found {getattr(pyramid, name)}; EfficientDet-D0 has"
                " num_iterations: 3 and num_filters: 64"
            )
            yield Problem(path=f"{path}.{name}", message=text)
    if pyramid.combine_method not in COMBINE_METHODS:
        found = pyramid.combine_method[:_SHOWN]
        text = f"expected one of {', '.join(COMBINE_METHODS)}, found {found!r}; correct the name"
        yield Problem(path=f"{path}.combine_method", message=text)


def _too_coarse(level: int, path: str) -> Iterator[Problem]:
    if level > _MAX_LEVEL:
        text = (
            f"expected at most {_MAX_LEVEL}, whose cells are {2**_MAX_LEVEL:,} pixels wide, found {level:,}"
        )
        yield Problem(path=path, message=f"{text}; change the levels")


Neck = Callable[[Extractor, Any, str], Iterator[Problem]]
_NECKS: dict[str, Neck] = {"extra_layers": _extra_layers, "fpn": _fpn, "bifpn": _bifpn}
