"""Label maps as Model Maker takes them: a list of names, ids to names, a YAML file, or a known data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from detection_core.config.automl.hparams import resolve_label_map, to_label_map
from detection_core.data.label_map import BACKGROUND, LabelMap
from detection_core.errors import ConfigError, shorten

WHERE = "label_map"
Classes = Mapping[int, str] | Sequence[str] | str
"""Class names in the order of their ids, from 1; ids to names; a .yaml file; or coco, voc or waymo."""


def read_classes(label_map: Classes) -> dict[int, str]:
    """Return class ids, from 1, and their names.

    An id 0 is the background.

    Raises:
        ConfigError: for an invalid label map, such as one with an id below 0 or a repeated name.
    """
    if isinstance(label_map, str | Mapping):
        _check_ids(label_map)
        names = resolve_label_map(label_map, WHERE)
    elif isinstance(label_map, Sequence):
        names = dict(enumerate(label_map, start=1))
    else:
        raise _refusal("names, ids to names, a .yaml file, or one of coco, voc and waymo", label_map)
    for number, name in names.items():
        if not isinstance(name, str):
            raise _refusal(f"a name for the id {number}", name)
    if names.get(0, BACKGROUND) != BACKGROUND:
        raise _refusal(f"{BACKGROUND!r} for the id 0, or no id 0", names[0])
    found = {number: name for number, name in sorted(names.items()) if number}
    if not found:
        raise _refusal("at least one class", label_map)
    to_label_map(found, WHERE)
    return found


def as_label_map(classes: Mapping[int, str]) -> LabelMap:
    """Return class ids and names in the format of the tasks."""
    return to_label_map(classes, WHERE)


def _check_ids(label_map: Mapping[Any, Any] | str) -> None:
    for number in label_map if isinstance(label_map, Mapping) else ():
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            raise _refusal("ids that are whole numbers, from 1", number)


def _refusal(expected: str, found: object) -> ConfigError:
    return ConfigError(f"expected {expected}, found {shorten(found)}; correct it", where=WHERE)
