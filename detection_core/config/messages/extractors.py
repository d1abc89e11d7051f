"""Feature extractors by name: built-in ones, registered ones, and names of TensorFlow 1."""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from detection_core.config.legacy import tensorflow_1
from detection_core.config.suggestions import did_you_mean
from detection_core.detectors.family import extractor_types
from detection_core.errors import Problem

NECKS = ("extra_layers", "fpn", "bifpn")
EXTRA_CHANNELS = (512, 256, 256, 128)
"""Nominal channels of the maps that an `extra_layers` neck can add to a backbone."""
LAST_BACKBONE_LEVEL = 5
"""Coarsest level, with stride 2^5, of backbones below a pyramid."""
MAX_LEVEL = 12
_SHOWN = 80
_UNNAMED = "expected the name of a feature extractor, found none; a name is ssd_mobilenet_v2_fpn_keras"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Extractor:
    """The parts and limits of a feature extractor.

    Attributes:
        backbone: the network that gives the features, by its name in `builders.backbones.BACKBONES`.
        neck: "extra_layers", "fpn" or "bifpn".
        maps: levels of the backbone's features that an `extra_layers` neck starts with, finest first.
        expanded: whether the neck takes the finest map before its block's last convolution.
        fixed: fields that must keep their defaults, because the extractor lacks these options.
        extra: nominal channels of the maps that an `extra_layers` neck can add.
        overridden: the message must override hyperparameters, because the backbone has no defaults.
        sides: rows or columns of the input -> those of `maps`; None if each stride rounds up.
        least_side: minimum rows and columns of an input.
    """

    backbone: str
    neck: str
    maps: tuple[int, ...] = ()
    expanded: bool = False
    fixed: tuple[str, ...] = ()
    extra: tuple[int, ...] = EXTRA_CHANNELS
    overridden: bool = False
    sides: Callable[[int], tuple[int, ...]] | None = None
    least_side: int = 1


REGISTERED: dict[str, Extractor] = {}
"""Extractors registered from outside the package."""


def register_extractor(name: str, extractor: Extractor) -> None:
    """Register an extractor from outside the package, which configs select by `type`.

    Register its backbone with `builders.backbones.register_backbone`. Registering an extractor needs no
    TensorFlow.

    Raises:
        ValueError: when the name is taken or the neck does not exist.
    """
    if name in extractor_types():
        raise ValueError(f"expected a new name for an extractor, found {name!r}, which is taken; rename it")
    if extractor.neck not in NECKS:
        raise ValueError(f"expected a neck of {', '.join(NECKS)}, found {extractor.neck!r}; correct it")
    REGISTERED[name] = extractor


def lacking_problems(message: Any, path: str, fields: Iterable[str]) -> Iterator[Problem]:
    """Find other values than the defaults in fields of options that the message's extractor lacks."""
    for name in fields:
        found, default = getattr(message, name), message.DESCRIPTOR.fields_by_name[name].default_value
        if found != default:
            expected, text = (f"{v:g}" if type(v) is float else str(v).lower() for v in (default, found))
            reason = f"expected {expected}, as {message.type} lacks this option, found {text}"
            yield Problem(path=f"{path}.{name}", message=f"{reason}; remove the field")


def level_problems(
    levels: tuple[int, int], path: str, *, least: int, several: bool, bounded: bool = True
) -> Iterator[Problem]:
    """Find a finest and a coarsest level that no pyramid has; `least` is the lowest finest one.

    `several` levels, or at least one, are required. If not `bounded`, the coarsest is checked elsewhere.
    """
    low, high = levels
    most = MAX_LEVEL if bounded else high
    if not least <= low <= LAST_BACKBONE_LEVEL or not low + several <= high <= most:
        order = f"min_level {'<' if several else '<='} max_level{f' <= {MAX_LEVEL}' if bounded else ''}"
        text = f"expected {least} <= min_level <= {LAST_BACKBONE_LEVEL} and {order}, found {low} and {high}"
        yield Problem(path=f"{path}.min_level", message=f"{text}; change the levels")


def type_problems(name: str, path: str, known: Collection[str]) -> Iterator[Problem]:
    """Find an extractor type that is missing, only TensorFlow 1's, or not among a family's known types."""
    if name in known:
        return
    if not name:
        message = _UNNAMED
    elif name in tensorflow_1.COUNTERPARTS:
        message = tensorflow_1.with_counterpart(name)
    elif name in tensorflow_1.WITHOUT_COUNTERPART:
        message = tensorflow_1.without_counterpart(name)
    else:
        advice = did_you_mean(name[:_SHOWN], known, "use one of these")
        shown = repr(name) if len(name) <= _SHOWN else f"{name[:_SHOWN]!r}... ({len(name):,} characters)"
        message = f"expected one of {', '.join(known)}, found {shown}; {advice}"
    yield Problem(path=path, message=message)
