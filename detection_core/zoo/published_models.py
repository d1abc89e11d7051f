"""The detectors of the TensorFlow 2 detection model zoo that this project builds."""

from __future__ import annotations

import difflib
import math

from detection_core.errors import ConfigError, shorten
from detection_core.zoo.networks import ARCHIVE_SUFFIX, SPEEDS, PublishedModel, Speed, list_all

PAGE = "https://github.com/tensorflow/models/blob/master/research/object_detection/g3doc/tf2_detection_zoo.md"
"""Where names, times and mAP are published."""


def list_models() -> tuple[PublishedModel, ...]:
    """Return the detectors that are published and built here, family by family, small ones first."""
    return tuple(network for network in list_all() if isinstance(network, PublishedModel))


def find_model(name: str) -> PublishedModel:
    """Return a detector by its published name.

    Raises:
        ConfigError: where there is none of that name, with the names that look like it.
    """
    known = {model.name: model for model in list_models()}
    found = known.get(name.removesuffix(ARCHIVE_SUFFIX))
    if found is not None:
        return found
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else "`detflow zoo list` shows them"
    raise ConfigError(
        f"expected the name of a detector of the model zoo that is built here, found {shorten(name)}; {hint}",
        where=f"zoo:{name}" if len(name) <= 80 else "zoo",
    )


def nearest_model(input_size: tuple[int, int], *, speed: Speed = "balanced") -> PublishedModel:
    """Return the detector of a rung whose input is nearest to a size; of equally near ones the more accurate.

    Args:
        input_size: height and width that the data ask for, pixels.
        speed: rung of the ladder.

    Raises:
        ValueError: for another rung, or a size that is none.
    """
    if speed not in SPEEDS or min(input_size) < 1:
        raise ValueError(f"expected one of {SPEEDS} and a size in pixels, found {speed!r}, {input_size}")
    side = math.sqrt(input_size[0] * input_size[1])
    rung = [model for model in list_models() if model.speed == speed]
    return min(rung, key=lambda model: (abs(math.log(model.side / side)), -model.coco_map))
