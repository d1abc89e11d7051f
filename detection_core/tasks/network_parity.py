"""Raw heads and boxes of a TensorFlow Lite file against what it was made from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from detection_core.artifacts.parity import BoxParity, NetworkParity
from detection_core.evaluation.results import EvaluatedImage, iou_px
from detection_core.evaluation.tflite_runner import TFLiteRunner
from detection_core.exporters.tflite_formats import Tolerance
from detection_core.exporters.tflite_layers import compare_layers, first_apart
from detection_core.storage import files
from detection_core.structures import ImageDetections

LEAST_SCORE = 0.3
"""Of the SavedModel's detections that a file has to find: below, order and suppression are chance."""
LEAST_IOU = 0.5
_FEWEST = 20
"""Detections that a share is judged by."""


def compare_network(
    path: str, function: Any, images: Sequence[np.ndarray], tolerance: Tolerance
) -> NetworkParity:
    """Run a file and the function that it was made from on the same inputs.

    Args:
        path: of the file.
        function: that was converted.
        images: uint8 [H, W, 3].
        tolerance: of the file's format.

    Raises:
        ModelError: when there is no image, or LiteRT does not run the file.
    """
    runner = TFLiteRunner(path)
    inputs = [runner.prepare(image)[np.newaxis] for image in images]
    layers = compare_layers(files.read_bytes(path), function, inputs)
    heads = {layer.layer: round(layer.db, 2) for layer in layers if layer.is_head}
    apart = first_apart(layers, tolerance.heads_db)
    return NetworkParity(
        images=len(images),
        least_db=tolerance.heads_db,
        heads=heads,
        layer=apart.layer if apart else "",
        operation=apart.operation if apart else "",
        layer_db=round(apart.db, 2) if apart else None,
    )


def network_clauses(parity: NetworkParity | None) -> Iterator[str]:
    """Yield a clause where a head is beyond its bound, with the layer where file and network part."""
    if parity is None:
        return
    beyond = {name: db for name, db in parity.heads.items() if db < parity.least_db}
    if beyond:
        heads = " and ".join(f"{name} {db:.1f} dB" for name, db in beyond.items())
        yield (
            f"raw heads {heads} from the network that it was made from, less than {parity.least_db:g} dB;"
            f" they part first at {parity.layer} ({parity.operation}, {parity.layer_db:.1f} dB)"
        )


def compare_boxes(
    reference: Sequence[EvaluatedImage], found: Sequence[EvaluatedImage], tolerance: Tolerance
) -> BoxParity:
    """Look for each detection of the SavedModel in what a file finds.

    Args:
        reference: what the SavedModel finds.
        found: what the file finds, in the same order.
        tolerance: of the file's format.
    """
    matches: list[tuple[float, float]] = []
    detections = 0
    for wanted, own in zip(reference, found, strict=True):
        detections += int((wanted.detections.scores >= LEAST_SCORE).sum())
        matches += _matches(wanted.detections, own.detections)
    return BoxParity(
        detections=detections,
        matched=round(len(matches) / detections, 6) if detections else 1.0,
        least_matched=tolerance.matched_boxes,
        mean_iou=round(float(np.mean([iou for iou, _ in matches])), 6) if matches else None,
        mean_score_difference=round(float(np.mean([d for _, d in matches])), 6) if matches else None,
    )


def box_clauses(parity: BoxParity) -> Iterator[str]:
    """Yield a clause where too few boxes are found; of a few detections a share says nothing."""
    if parity.detections >= _FEWEST and parity.matched < parity.least_matched:
        yield (
            f"{parity.matched:.1%} of the SavedModel's {parity.detections} detections from a score of"
            f" {LEAST_SCORE:g} are among its own, less than {parity.least_matched:.0%}"
        )


def _matches(wanted: ImageDetections, found: ImageDetections) -> list[tuple[float, float]]:
    """Return overlap and score difference of each detection that is found; each may be found once."""
    matches: list[tuple[float, float]] = []
    left: np.ndarray = np.ones(len(found.scores), bool)
    for box, score, label in zip(wanted.boxes, wanted.scores, wanted.classes, strict=True):
        if score < LEAST_SCORE:
            break
        overlaps = iou_px(found.boxes, box[np.newaxis], np.zeros(1, bool))[:, 0]
        overlaps = np.where(left & (found.classes == label), overlaps, 0.0)
        if overlaps.size and overlaps.max() >= LEAST_IOU:
            best = int(overlaps.argmax())
            left[best] = False
            matches.append((float(overlaps[best]), abs(float(found.scores[best] - score))))
    return matches
