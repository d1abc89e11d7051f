"""Classes and numbers of the keypoints that the tasks of a config name, from its label map."""

from __future__ import annotations

import dataclasses

from detection_core.config.label_map_file import load_label_map
from detection_core.data.label_map import LabelMap
from detection_core.errors import ConfigError
from detection_core.protos.center_net_pb2 import CenterNet
from detection_core.structures import FIRST_CLASS

FIELD = "keypoint_label_map_path"


@dataclasses.dataclass(frozen=True, kw_only=True)
class KeypointLabels:
    """The keypoints of a class.

    Attributes:
        class_index: in [0, C).
        indices: of the keypoints in records.
        names: of the keypoints.
    """

    class_index: int
    indices: tuple[int, ...]
    names: tuple[str, ...]


def keypoint_labels(message: CenterNet, where: str, *, inspected: bool) -> list[KeypointLabels]:
    """Return the keypoints of each task of a message.

    A detector that is only `inspected` does without a label map: its keypoints are those that
    `keypoint_label_to_std` names, of class 0.

    Raises:
        ConfigError: when there is no label map, or it has no keypoints of a task's class.
    """
    if not message.keypoint_estimation_task:
        return []
    try:
        label_map = load_label_map(message.keypoint_label_map_path)
    except ConfigError as error:
        if inspected:
            return _guessed(message)
        raise ConfigError(
            f"expected a label map with the keypoints of each class, found none: {error.message}; set it",
            where=f"{where}.{FIELD}",
        ) from error
    return [
        _of_class(label_map, task, f"{where}.keypoint_estimation_task[{i}]")
        for i, task in enumerate(message.keypoint_estimation_task)
    ]


def _guessed(message: CenterNet) -> list[KeypointLabels]:
    found: list[KeypointLabels] = []
    first = 0
    for task in message.keypoint_estimation_task:
        names = tuple(sorted(task.keypoint_label_to_std)) or ("keypoint",)
        indices = tuple(range(first, first + len(names)))
        found.append(KeypointLabels(class_index=0, indices=indices, names=names))
        first += len(names)
    return found


def _of_class(label_map: LabelMap, task: CenterNet.KeypointEstimation, where: str) -> KeypointLabels:
    name = task.keypoint_class_name
    for item in label_map.items:
        if item.keypoints and name in (item.name, item.display_name):
            return KeypointLabels(
                class_index=item.id - FIRST_CLASS,
                indices=tuple(keypoint.id for keypoint in item.keypoints),
                names=tuple(keypoint.label for keypoint in item.keypoints),
            )
    known = [item.display_name or item.name for item in label_map.items if item.keypoints]
    raise ConfigError(
        f"expected a class of the label map with keypoints, {', '.join(known[:10]) or 'which has none'},"
        f" found {name[:80]!r}; correct the name, or add keypoints to its item",
        where=f"{where}.keypoint_class_name",
    )
