"""Runs several detectors as an ensemble and fuses their detections."""

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from detection_core.artifacts.detector import ENSEMBLE, Ensemble, members
from detection_core.errors import ConfigError, ModelError
from detection_core.evaluation.measure import known_classes
from detection_core.evaluation.results import iou_px
from detection_core.evaluation.signature_runner import Runner
from detection_core.ops.box_fusion import IOU_THRESHOLD, fuse_boxes
from detection_core.storage import files
from detection_core.structures import Instances


class EnsembleRunner:
    """Runs each detector on an image, and fuses the detections by weighted boxes fusion."""

    def __init__(self, path: str, runners: Sequence[Runner], iou_threshold: float = IOU_THRESHOLD) -> None:
        """Combine detectors with the same classes; boxes that overlap by at least the threshold are fused."""
        self.path = path
        self._runners = tuple(runners)
        self._iou_threshold = iou_threshold

    def __call__(self, image: np.ndarray, source_id: str = "") -> Instances:
        """Detect objects; see `Runner`."""
        found = [runner(image, source_id) for runner in self._runners]
        boxes, scores, classes = fuse_boxes(
            np.concatenate([f.boxes for f in found]),
            np.concatenate([f.scores for f in found]),
            np.concatenate([f.classes for f in found]),
            models=len(found),
            iou_threshold=self._iou_threshold,
        )
        height, width = image.shape[:2]
        fused = Instances(
            source_id=source_id, height=height, width=width, boxes=boxes, scores=scores, classes=classes
        )
        return _with_shapes(fused, found)


def _with_shapes(fused: Instances, found: Sequence[Instances]) -> Instances:
    """Give each fused box the mask and keypoints of the overlapping detection with the largest overlap.

    The detection must have the same class. Masks are omitted if any detection has none, keypoints if
    detectors differ in their number.
    """
    classes, boxes, masks = (
        np.concatenate([getattr(f, name) for f in found]) for name in ("classes", "boxes", "masks")
    )
    overlaps = iou_px(fused.boxes, boxes, np.zeros(len(boxes), bool))
    same_class = fused.classes[:, np.newaxis] == classes
    nearest = np.where(same_class, overlaps, -1.0).argmax(axis=1) if len(boxes) else np.zeros(0, int)
    shapes: dict[str, Any] = {"masks": masks[nearest]} if all(masks) else {}
    if len({f.keypoints.shape[1] for f in found}) == 1:
        shapes["keypoints"] = np.concatenate([f.keypoints for f in found])[nearest]
    return dataclasses.replace(fused, **shapes)


def load_ensemble(path: str, ensemble: Ensemble, load: Callable[[str], Runner]) -> EnsembleRunner:
    """Load the detectors of an ensemble from its folder and `ensemble.json`; ModelError if classes differ."""
    check_same_classes(members(path))
    return EnsembleRunner(path, [load(member) for member in members(path)], ensemble.iou_threshold)


def write_ensemble(directory: str, detectors: Sequence[str], *, iou_threshold: float = IOU_THRESHOLD) -> None:
    """Write an ensemble's folder, which evaluation and prediction accept as a detector.

    Args:
        directory: folder to write; created if missing.
        detectors: detector folders, SavedModels or .tflite files, with the same classes.
        iou_threshold: minimum overlap of boxes to fuse, above 0 and at most 1.

    Raises:
        ConfigError: for a threshold out of range, or fewer than two detectors.
        ModelError: if they have different classes.
    """
    if len(detectors) < 2 or not 0 < iou_threshold <= 1:
        raise ConfigError(
            f"expected two or more detectors and an overlap in (0, 1], found {len(detectors)} and"
            f" {iou_threshold:g}; give each detector its own --model",
            where="ensemble",
        )
    check_same_classes(detectors)
    paths = tuple(path if files.is_remote(path) else os.path.abspath(path) for path in detectors)
    files.make_dirs(directory)
    ENSEMBLE.write(directory, Ensemble(detectors=paths, iou_threshold=iou_threshold))


def check_same_classes(detectors: Sequence[str]) -> None:
    """Refuse detectors with other classes, whose objects fusion would mix up; ModelError names the first."""
    known = {path: names for path in detectors if (names := known_classes(path))}
    for path, names in known.items():
        first, expected = next(iter(known.items()))
        differing = [c for c in sorted({*names, *expected}) if names.get(c) != expected.get(c)]
        if differing:
            label = differing[0]
            raise ModelError(
                f"expected the classes of {first}, found class {label + 1} to be {names.get(label)!r}, not"
                f" {expected.get(label)!r}; fuse detectors of the same label map",
                where=path,
            )
