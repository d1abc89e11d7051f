"""The classes of a detector, from what lies beside it."""

from __future__ import annotations

from detection_core.artifacts import detector as layout
from detection_core.artifacts.model_path import members
from detection_core.artifacts.tflite_file import read_tflite
from detection_core.artifacts.tflite_metadata import read_description
from detection_core.config.label_map_file import load_label_map
from detection_core.evaluation.measure import class_names
from detection_core.storage import files


def known_classes(path: str) -> dict[int, str]:
    """Return class in [0, C) to name; nothing where the detector does not say.

    Args:
        path: a detector folder, a SavedModel, a .tflite file, or an ensemble, whose detectors have the same.
    """
    path = members(path)[0]
    if files.is_dir(path):
        label_map = layout.extra_file(path, layout.LABEL_MAP)
        return class_names(load_label_map(label_map)) if files.exists(label_map) else {}
    return dict(enumerate(read_description(read_tflite(path), where=path).labels))
