"""Resolve model paths: a push destination, a folder of files, or an ensemble (ensemble.json)."""

from __future__ import annotations

import dataclasses
import os

from detection_core.artifacts.detector import holds_saved_model
from detection_core.artifacts.json_file import JsonFile
from detection_core.artifacts.published import IN_SERVICE, is_destination, read_deployment
from detection_core.errors import ContractError
from detection_core.storage import files


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ensemble:
    """The content of ensemble.json.

    Attributes:
        detectors: detector folders, SavedModels or .tflite files; paths are relative to this file's folder.
        iou_threshold: least IoU at which boxes of two detectors are one object.
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
    """Return an ensemble's detectors in order; for any other path, the path itself."""
    found = find_ensemble(path)
    if found is None:
        return (path,)
    return tuple(
        p if files.is_remote(p) or os.path.isabs(p) else files.join(path, p) for p in found.detectors
    )


def find_ensemble(path: str) -> Ensemble | None:
    """Read an ensemble's folder; None if the path is not one."""
    return ENSEMBLE.find(path) if files.is_dir(path) else None


_TFLITE = ".tflite"


def find_model(path: str) -> str:
    """Return the model in a folder of models; any other path unchanged.

    A push destination gives its deployed version, a folder of TensorFlow Lite files its only file.

    Raises:
        ContractError: when nothing is deployed there, or the folder holds several TensorFlow Lite files.
    """
    if os.path.splitext(path)[1].lower() == _TFLITE or not files.is_dir(path) or holds_saved_model(path):
        return path
    if is_destination(path):
        version = read_deployment(path).version
        if version is None:
            raise ContractError("expected a deployed version, found none; publish one first", where=path)
        return files.join(path, IN_SERVICE, str(version))
    if find_ensemble(path):
        return path
    found = [name for name in files.list_entries(path)[1] if name.lower().endswith(_TFLITE)]
    if len(found) > 1:
        raise ContractError(
            f"expected one model, found {len(found)} {_TFLITE} files; pass one of them: {', '.join(found)}",
            where=path,
        )
    return files.join(path, found[0]) if found else path
