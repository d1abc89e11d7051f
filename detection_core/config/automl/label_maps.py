"""Label maps of google/automl's EfficientDet: class ids to names."""

from __future__ import annotations

from collections.abc import Mapping

from detection_core.config.automl import value_readers as readers
from detection_core.config.automl.hparams_text import WHERE, read_yaml_file
from detection_core.data.label_map import LabelMap, LabelMapItem
from detection_core.errors import ConfigError, DataError, shorten
from detection_core.zoo.coco_classes import COCO_CLASSES

_VOC_NAMES = (
    "aeroplane,bicycle,bird,boat,bottle,bus,car,cat,chair,cow,diningtable,dog,horse,motorbike,person,"
    "pottedplant,sheep,sofa,train,tvmonitor"
)
BUILT_IN: Mapping[str, Mapping[int, str]] = {
    "coco": COCO_CLASSES,
    "voc": dict(enumerate(_VOC_NAMES.split(","), 1)),
    "waymo": {1: "vehicle", 2: "pedestrian", 3: "cyclist"},
}
"""Name to class ids and names."""


def resolve_label_map(
    label_map: Mapping[int, str] | str | None, where: str = f"{WHERE}.label_map"
) -> dict[int, str]:
    """Return class ids and names of a mapping, a .yaml file or a built-in name; empty for None.

    Raises:
        ConfigError: when there is no label map of that name, or the file cannot be used.
    """
    if not label_map:
        return {}
    if isinstance(label_map, str):
        if label_map in BUILT_IN:
            return dict(BUILT_IN[label_map])
        if not label_map.endswith((".yaml", ".yml")):
            raise ConfigError(
                f"expected a table of class id: name, a .yaml file, or one of {', '.join(BUILT_IN)}, found"
                f" {shorten(label_map)}; correct it",
                where=where,
            )
        label_map = readers.label_map(read_yaml_file(label_map), label_map)
    return dict(sorted((number, name) for number, name in label_map.items()))  # type: ignore[union-attr]


def to_label_map(names: Mapping[int, str], where: str = f"{WHERE}.label_map") -> LabelMap:
    """Convert class ids and names to a label map; id 0, google/automl's background, is left out.

    Raises:
        ConfigError: when two ids have one name, or a name is empty.
    """
    try:
        return LabelMap(
            items=tuple(LabelMapItem(id=number, name=name) for number, name in names.items() if number)
        )
    except DataError as error:
        raise ConfigError(error.message, where=where) from error
