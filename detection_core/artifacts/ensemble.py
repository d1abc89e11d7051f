"""An ensemble as a folder: ensemble.json, which names detectors whose detections are fused."""

from __future__ import annotations

import dataclasses
import os

from detection_core.artifacts.json_file import JsonFile
from detection_core.storage import files


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ensemble:
    """What ensemble.json holds.

    Attributes:
        detectors: detector folders, SavedModels or .tflite files; a relative path starts at the folder of
            this file.
        iou_threshold: overlap from which boxes of two detectors show one object.
    """

    detectors: tuple[str, ...]
    iou_threshold: float


ENSEMBLE = JsonFile(
    name="ensemble.json",
    content=Ensemble,
    writer="`detflow predict` or `detflow evaluate` with several --model",
    remedy="name the detectors with --model again",
)


def members(path: str) -> tuple[str, ...]:
    """Return the detectors of an ensemble's folder, in their order; of any other path itself alone."""
    found = find_ensemble(path)
    if found is None:
        return (path,)
    return tuple(
        p if files.is_remote(p) or os.path.isabs(p) else files.join(path, p) for p in found.detectors
    )


def find_ensemble(path: str) -> Ensemble | None:
    """Return what an ensemble's folder says; None where the path is something else."""
    return ENSEMBLE.find(path) if files.is_dir(path) else None
