"""The feature extractors of SSD: names, checks, and sizes of the feature maps."""

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from detection_core.bounded.plain_yaml import module_table
from detection_core.config.legacy.tensorflow_1 import COUNTERPARTS, KEPT
from detection_core.config.messages.extractors import (
    MAX_LEVEL,
    REGISTERED,
    Extractor,
    lacking_problems,
    level_problems,
    type_problems,
)
from detection_core.errors import Problem
from detection_core.protos.ssd_pb2 import SsdFeatureExtractor

COMBINE_METHODS = ("sum", "fast_attention", "weighted_sum", "attention")
"""Methods that combine the inputs of a node in a bidirectional pyramid."""


def _inception_v3_sides(side: int) -> tuple[int, ...]:
    """Count the rows or columns of the maps of stride 8, 16 and 32, which are not padded."""

    def halved(side: int) -> int:
        return (side - 3) // 2 + 1

    fine = halved(halved(halved(side) - 2) - 2)
    return fine, halved(fine), halved(halved(fine))


def _built_in() -> Iterator[tuple[str, Extractor]]:
    table = module_table(__file__)
    for name, text in table["extractors"].items():
        backbone, kind = text.split()
        lists = {key: tuple(value) for key, value in table["kinds"][kind].items() if isinstance(value, list)}
        sides = _inception_v3_sides if backbone == "inception_v3" else None
        yield name, Extractor(**{**table["kinds"][kind], **lists}, backbone=backbone, sides=sides)


_BUILT_IN = dict(_built_in())
EXTRACTORS: Mapping[str, Extractor] = ChainMap(_BUILT_IN, REGISTERED)
"""Every extractor that a config can select by `type`."""

NAMED_EXTRACTORS = (
    *(name for name in (*COUNTERPARTS.values(), *KEPT) if name.startswith("ssd_")),
    *(name for name in _BUILT_IN if name.endswith("_minimalistic")),
)
"""Extractors that TensorFlow 1 also had, with known checkpoint names."""


def extractor_problems(message: SsdFeatureExtractor, path: str) -> Iterator[Problem]:
    """Find problems of the extractor alone."""
    entry = EXTRACTORS.get(message.type)
    if entry is None:
        yield from type_problems(message.type, f"{path}.type", EXTRACTORS)
        return
    yield from lacking_problems(message, path, entry.fixed)
    if entry.overridden and not message.override_base_feature_extractor_hyperparams:
        name = "override_base_feature_extractor_hyperparams"
        text = f"expected true, as {message.type} has no default hyperparameters, found false; set it"
        yield Problem(path=f"{path}.{name}", message=text)
    yield from _NECKS[entry.neck](entry, message, path)
    yield from _foreign_pyramid(entry, message, path)
    if message.min_depth < 1 and message.depth_multiplier < 1 / 8:
        text = (
            f"expected 1 or more beside a depth_multiplier of {message.depth_multiplier:g}, as layers would"
            f" be left without channels, found {message.min_depth}; 16 is usual"
        )
        yield Problem(path=f"{path}.min_depth", message=text)


def map_levels(message: SsdFeatureExtractor) -> range | None:
    """Return the levels of the feature maps, finest first; level l has stride 2^l. None: unknown."""
    entry = EXTRACTORS.get(message.type)
    if entry is None:
        return None
    if entry.neck == "extra_layers":
        return range(entry.maps[0], entry.maps[0] + message.num_layers)
    pyramid = getattr(message, entry.neck)
    return range(pyramid.min_level, pyramid.max_level + 1)


def map_shapes(message: SsdFeatureExtractor, rows: int, columns: int) -> list[tuple[int, int]]:
    """Return rows and columns of the feature maps of an image in pixels, finest first."""
    multiple = max(message.pad_to_multiple, 1)
    high, wide = (-(-side // multiple) * multiple for side in (rows, columns))
    levels = map_levels(message) or range(0)
    return list(zip(_sides(message, high, levels), _sides(message, wide, levels), strict=True))


def _sides(message: SsdFeatureExtractor, side: int, levels: range) -> list[int]:
    entry = EXTRACTORS.get(message.type)
    if entry is None or entry.sides is None:
        # Every halving rounds up, so the order of halvings does not matter.
        return [-(-side >> level) for level in levels]
    given = entry.sides(max(side, entry.least_side))
    return [given[i] if i < len(given) else -(-given[-1] >> i + 1 - len(given)) for i in range(len(levels))]


def least_side_problems(message: SsdFeatureExtractor, path: str, size: tuple[int, int]) -> Iterator[Problem]:
    """Find an input that is too small for the extractor."""
    entry = EXTRACTORS.get(message.type)
    if entry is not None and min(size) < entry.least_side:
        text = (
            f"expected at least {entry.least_side} x {entry.least_side} pixels for {message.type}, which"
            f" uses no padding, found {size[0]} x {size[1]}; make images larger"
        )
        yield Problem(path=f"{path}.type", message=text)


def _extra_layers(entry: Extractor, message: Any, path: str) -> Iterator[Problem]:
    most = len(entry.maps) + len(entry.extra)
    if not 1 <= message.num_layers <= most:
        text = f"expected 1 to {most} feature maps, found {message.num_layers:,}; change num_layers"
        yield Problem(path=f"{path}.num_layers", message=text)


def _fpn(entry: Extractor, message: Any, path: str) -> Iterator[Problem]:
    levels = message.fpn.min_level, message.fpn.max_level
    yield from level_problems(levels, f"{path}.fpn", least=2, several=False, bounded=False)
    yield from _too_coarse(levels[1], f"{path}.fpn.max_level")


def _bifpn(entry: Extractor, message: Any, path: str) -> Iterator[Problem]:
    pyramid, path = message.bifpn, f"{path}.bifpn"
    levels = pyramid.min_level, pyramid.max_level
    yield from level_problems(levels, path, least=1, several=True, bounded=False)
    yield from _too_coarse(levels[1], f"{path}.max_level")
    for name in ("num_iterations", "num_filters"):
        if getattr(pyramid, name) < 1:
            text = (
                f"expected a positive number, found {getattr(pyramid, name)}; EfficientDet-D0 has"
                " num_iterations: 3 and num_filters: 64"
            )
            yield Problem(path=f"{path}.{name}", message=text)
    if pyramid.combine_method not in COMBINE_METHODS:
        found = pyramid.combine_method[:80]
        text = f"expected one of {', '.join(COMBINE_METHODS)}, found {found!r}; correct the name"
        yield Problem(path=f"{path}.combine_method", message=text)


def _foreign_pyramid(entry: Extractor, message: SsdFeatureExtractor, path: str) -> Iterator[Problem]:
    """Find settings of a pyramid that the extractor does not have, which have no effect."""
    pyramid = message.WhichOneof("feature_pyramid_oneof")
    if pyramid is None or pyramid == entry.neck:
        return
    own = "no pyramid" if entry.neck == "extra_layers" else entry.neck
    text = f"expected {own}, as {message.type} has, found {pyramid}; change the type or remove it"
    yield Problem(path=f"{path}.{pyramid}", message=text)


def _too_coarse(level: int, path: str) -> Iterator[Problem]:
    if level > MAX_LEVEL:
        text = f"expected at most {MAX_LEVEL}, whose cells are {2**MAX_LEVEL:,} pixels wide, found {level:,}"
        yield Problem(path=path, message=f"{text}; change the levels")


Neck = Callable[[Extractor, Any, str], Iterator[Problem]]
_NECKS: dict[str, Neck] = {"extra_layers": _extra_layers, "fpn": _fpn, "bifpn": _bifpn}
