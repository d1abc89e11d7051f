"""Detections of a TensorFlow Lite file against the SavedModel's.

Where boxes overlap and their scores are alike, rounding decides which of them suppresses the others, and
which come last in a list that is full. What a file lacks for that reason says nothing of it, and is left out:
of a network that has learned nothing this may be all.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

import numpy as np

from detection_core.artifacts.parity import BoxParity, LayerNoise, NetworkParity
from detection_core.evaluation.results import EvaluatedImage, iou_px
from detection_core.evaluation.tflite_heads import MEDIAPIPE_OVERLAP
from detection_core.exporters.tflite_formats import Tolerance
from detection_core.exporters.tflite_layers import ReferenceNetwork, compare_layers, first_apart
from detection_core.storage import files
from detection_core.structures import Instances


def compare_network(
    path: str, reference: ReferenceNetwork, inputs: Sequence[np.ndarray], tolerance: Tolerance
) -> NetworkParity:
    """Run a file and the network that it was made from on the same inputs.

    Args:
        path: of the file.
        reference: what was converted.
        inputs: what the file's input takes, [1, H, W, 3] of its own dtype.
        tolerance: of the file's format.

    Raises:
        ModelError: when there is no input, or LiteRT does not run the file.
    """
    found = compare_layers(files.read_bytes(path), reference, inputs)
    heads: dict[str, float] = {}
    for layer in found.layers:
        if layer.is_head:
            heads[layer.layer] = min(round(layer.db, 2), heads.get(layer.layer, math.inf))
    apart = first_apart(found.layers, tolerance.heads_db)
    return NetworkParity(
        images=len(inputs),
        least_db=tolerance.heads_db,
        heads=heads,
        unmatched=list(found.unmatched_heads),
        layer=apart.layer if apart else "",
        operation=apart.operation if apart else "",
        layer_db=round(apart.db, 2) if apart else None,
        layers=[
            LayerNoise(layer=one.layer, operation=one.operation, db=round(one.db, 2)) for one in found.layers
        ],
    )


def network_clauses(parity: NetworkParity | None) -> Iterator[str]:
    """Yield a clause where a head is beyond its bound, with the layer where they part, or is not known."""
    if parity is None:
        return
    if parity.unmatched:
        yield (
            f"raw heads {' and '.join(parity.unmatched)} are not of the network that it was made from:"
            " nothing is known of what the conversion made of them"
        )
    beyond = {name: db for name, db in parity.heads.items() if db < parity.least_db}
    if beyond:
        heads = " and ".join(f"{name} {db:.1f} dB" for name, db in beyond.items())
        yield (
            f"raw heads {heads} from the network that it was made from, less than {parity.least_db:g} dB;"
            f" they part first at {parity.layer} ({parity.operation}, {parity.layer_db:.1f} dB)"
        )


LEAST_SCORE = 0.3
"""Of the SavedModel's detections that a file has to find."""
LEAST_IOU = 0.5
LEAST_SCORE_SHARE = 0.5
"""Of a detection's score: lists that end with the least scores have a bit of every class everywhere."""
SUPPRESSING_IOU = MEDIAPIPE_OVERLAP
"""Overlap from which one box may suppress another, in the form of file that suppresses most."""
NOISE_QUANTILE = 0.95
"""Of the differences between a file's scores and the SavedModel's: so much of one may be rounding."""
FEWEST = 20
"""Detections that a share is judged by."""


@dataclasses.dataclass(frozen=True)
class _Pairs:
    """How an image's detections belong together.

    Attributes:
        overlaps: of each detection that is found.
        differences: of its scores, absolute.
        missing: positions of the SavedModel's detections that are not found.
    """

    overlaps: list[float]
    differences: list[float]
    missing: list[int]


def compare_boxes(
    reference: Sequence[EvaluatedImage],
    found: Sequence[EvaluatedImage],
    tolerance: Tolerance,
    *,
    max_detections: int = 100,
) -> BoxParity:
    """Look for each detection of the SavedModel in what a file finds.

    Args:
        reference: what the SavedModel finds.
        found: what the file finds, in the same order.
        tolerance: of the file's format.
        max_detections: boxes, or with suppression class by class detections, that the file gives at most.
    """
    images = [(a.detections, b.detections) for a, b in zip(reference, found, strict=True)]
    pairs = [_pairs(wanted, own) for wanted, own in images]
    overlaps = [overlap for one in pairs for overlap in one.overlaps]
    differences = [difference for one in pairs for difference in one.differences]
    noise = float(np.quantile(differences, NOISE_QUANTILE)) if differences else 0.0
    missing = sum(len(one.missing) for one in pairs)
    # How many the SavedModel gives at most is seen where it gives many.
    longest = max(FEWEST, *(len(wanted.scores) for wanted, _ in images))
    # Of two scores that are compared each has its own noise.
    chance = _Chance(noise=2 * noise, most_wanted=longest, most_found=max_detections)
    undecided = sum(
        int(chance.decides(wanted, own, one.missing).sum())
        for (wanted, own), one in zip(images, pairs, strict=True)
    )
    counted = len(overlaps) + missing - undecided
    return BoxParity(
        detections=counted,
        undecided=undecided,
        matched=round(len(overlaps) / counted, 6) if counted else 1.0,
        least_matched=tolerance.matched_boxes,
        mean_iou=round(float(np.mean(overlaps)), 6) if overlaps else None,
        mean_score_difference=round(float(np.mean(differences)), 6) if differences else None,
        score_noise=round(noise, 6) if differences else None,
    )


def box_clauses(parity: BoxParity) -> Iterator[str]:
    """Yield a clause where too few boxes are found; of a few detections a share says nothing."""
    if parity.detections >= FEWEST and parity.matched < parity.least_matched:
        yield (
            f"{parity.matched:.1%} of the SavedModel's {parity.detections} detections from a score of"
            f" {LEAST_SCORE:g} are among its own, less than {parity.least_matched:.0%}"
        )


def _pairs(wanted: Instances, found: Instances) -> _Pairs:
    """Pair each detection with one of its class that overlaps it most; each may be found once."""
    pairs = _Pairs([], [], [])
    overlaps = _overlaps(found.boxes, wanted.boxes)
    overlaps *= found.classes[:, np.newaxis] == wanted.classes
    overlaps *= found.scores[:, np.newaxis] >= LEAST_SCORE_SHARE * wanted.scores
    for position in np.flatnonzero(wanted.scores >= LEAST_SCORE):
        column = overlaps[:, position]
        best = int(column.argmax()) if column.size else -1
        if best < 0 or column[best] < LEAST_IOU:
            pairs.missing.append(int(position))
            continue
        pairs.overlaps.append(float(column[best]))
        pairs.differences.append(abs(float(found.scores[best] - wanted.scores[position])))
        overlaps[best] = 0.0
    return pairs


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Chance:
    """What rounding alone may have decided.

    Attributes:
        noise: of the difference of two scores.
        most_wanted: detections that the SavedModel gives at most.
        most_found: boxes, or detections, that the file gives at most.
    """

    noise: float
    most_wanted: int
    most_found: int

    def decides(self, wanted: Instances, found: Instances, missing: Sequence[int]) -> np.ndarray:
        """Tell which of the missing detections may have been suppressed or cut off by it, bool [M].

        Suppressed: a box of the file that overlaps it is as good, but for the noise. A box counts for this
        only where the SavedModel has found its object, too: what a file makes up is no excuse for what it
        lacks.
        """
        if not found.scores.size:
            return np.zeros(len(missing), bool)
        boxes, place = np.unique(found.boxes, axis=0, return_inverse=True)
        best: np.ndarray = np.zeros(len(boxes), np.float32)
        np.maximum.at(best, place.reshape(-1), found.scores)
        is_known: np.ndarray = np.zeros(len(boxes), bool)
        np.logical_or.at(is_known, place.reshape(-1), self._known(wanted, found))
        near = _overlaps(boxes, wanted.boxes[missing]) > SUPPRESSING_IOU
        least = wanted.scores[missing] - self.noise
        suppressed = (near & is_known[:, np.newaxis] & (best[:, np.newaxis] >= least)).any(axis=0)
        is_full = len(found.scores) >= self.most_found
        return np.asarray(suppressed | (is_full and least <= best.min()), bool)

    def _known(self, wanted: Instances, found: Instances) -> np.ndarray:
        """Tell which of a file's detections the SavedModel has as well, or may have cut off, bool [D]."""
        is_same = _overlaps(found.boxes, wanted.boxes) >= LEAST_IOU
        is_same &= found.classes[:, np.newaxis] == wanted.classes
        is_same &= wanted.scores >= found.scores[:, np.newaxis] - self.noise
        is_full = len(wanted.scores) >= self.most_wanted
        return np.asarray(
            is_same.any(axis=1) | (is_full and found.scores <= wanted.scores.min() + self.noise), bool
        )


def _overlaps(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return intersections over union, float64 [N, M]."""
    return iou_px(one, other, np.zeros(len(other), bool))
