"""Compare a TensorFlow Lite file's raw heads with its network's, and its detections with the SavedModel's.

For overlapping boxes with close scores, rounding decides which box suppresses the others. It also decides
which detections come last in a full list. Detections missing for these reasons are not counted; for an
untrained network they may be all.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from detection_core.artifacts.evaluation import SHAPE_MAP_50
from detection_core.artifacts.parity import BoxParity, NetworkParity
from detection_core.artifacts.tflite_metadata import MEDIAPIPE_OVERLAP
from detection_core.evaluation.coco_format import has_shapes
from detection_core.evaluation.coco_metrics import SHAPE_KINDS, evaluate_coco
from detection_core.evaluation.evaluated_split import EvaluatedSplit
from detection_core.evaluation.results import EvaluatedImage, iou_px
from detection_core.exporters.tflite_formats import Tolerance
from detection_core.structures import Instances


def network_clauses(parity: NetworkParity | None) -> Iterator[str]:
    """Yield a clause if a head is beyond its bound, with the first noisy layer, or has no counterpart."""
    if parity is None:
        return
    if parity.unmatched:
        yield (
            f"raw heads {' and '.join(parity.unmatched)} do not belong to the network that it was made"
            " from, so they cannot be compared"
        )
    beyond = {name: db for name, db in parity.heads.items() if db < parity.least_db}
    if beyond:
        heads = " and ".join(f"{name} {db:.1f} dB" for name, db in beyond.items())
        yield (
            f"raw heads {heads} from the network that it was made from, less than {parity.least_db:g} dB;"
            f" they first differ at {parity.layer} ({parity.operation}, {parity.layer_db:.1f} dB)"
        )


LEAST_SCORE = 0.3
"""Lowest score of the SavedModel's detections that a file must find."""
LEAST_IOU = 0.5
LEAST_SCORE_SHARE = 0.5
"""Lowest score of a match, as a share of the reference score: the end of a full list has all classes
everywhere.
"""
SUPPRESSING_IOU = MEDIAPIPE_OVERLAP
"""IoU above which one box may suppress another: MediaPipe's, which is below that of the usual configs."""
NOISE_QUANTILE = 0.95
"""Quantile of the score differences between file and SavedModel that is taken as rounding noise."""
FEWEST = 20
"""Fewest detections from which a share is judged."""


@dataclasses.dataclass(frozen=True)
class _Pairs:
    """IoUs and absolute score differences of an image's matches; indices of the reference's missing ones."""

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
    """Match the SavedModel's detections, the reference, with a file's, in the same order.

    A file has at most so many boxes, or detections with class-by-class suppression.
    """
    images = [(a.detections, b.detections) for a, b in zip(reference, found, strict=True)]
    pairs = [_pairs(wanted, own) for wanted, own in images]
    overlaps = [overlap for one in pairs for overlap in one.overlaps]
    differences = [difference for one in pairs for difference in one.differences]
    noise = float(np.quantile(differences, NOISE_QUANTILE)) if differences else 0.0
    missing = sum(len(one.missing) for one in pairs)
    # The SavedModel's limit is estimated by its longest list.
    longest = max(FEWEST, *(len(wanted.scores) for wanted, _ in images))
    # Both compared scores have noise.
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
    """Yield a clause if too few boxes are found; a share of few detections is not judged."""
    if parity.detections >= FEWEST and parity.matched < parity.least_matched:
        yield (
            f"{parity.matched:.1%} of the SavedModel's {parity.detections} detections from a score of"
            f" {LEAST_SCORE:g} are among its own, less than {parity.least_matched:.0%}"
        )


def measured_metrics(split: EvaluatedSplit, sets: Sequence[str]) -> dict[str, float]:
    """Return COCO's metrics of boxes, and of the masks and keypoints that the detector finds.

    `sets` are metric sets as in an `eval_config`.
    """
    metrics = split.coco.metrics()
    for kind in (SHAPE_KINDS[name] for name in sets if name in SHAPE_KINDS):
        if all(has_shapes(image.detections, kind.iou_type) for image in split.counted):
            metrics |= evaluate_coco(split.counted, split.class_names, kind).metrics()
    return metrics


def shape_clauses(
    found: Mapping[str, float], reference: Mapping[str, float], max_drop: float
) -> Iterator[str]:
    """Yield a clause if the mAP@.50 of masks or keypoints falls too far below the SavedModel's.

    The file's `measured_metrics` have no keypoints of several classes; the drop is absolute.
    """
    for what, name in SHAPE_MAP_50.items():
        if name not in found or name not in reference:
            continue
        drop = reference[name] - found[name]
        if drop > max_drop:
            yield (
                f"mAP@.50 of {what} {found[name]:.4f} is {drop:.4f} below the SavedModel's, more than"
                f" {max_drop:.4f}"
            )


def _pairs(wanted: Instances, found: Instances) -> _Pairs:
    """Match each detection with the box of its class that overlaps it most; each is used once."""
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
    """Decides which differences score noise and the limits of both lists may explain."""

    noise: float
    most_wanted: int
    most_found: int

    def decides(self, wanted: Instances, found: Instances, missing: Sequence[int]) -> np.ndarray:
        """Return which missing detections rounding may have suppressed or cut off, bool [M].

        A detection may be suppressed by an overlapping box of the file whose score is as high, within the
        noise. The SavedModel must have found that box's object, too: a false box of the file excuses nothing.
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
        """Return which detections of a file the SavedModel also has, or may have cut off, bool [D]."""
        is_same = _overlaps(found.boxes, wanted.boxes) >= LEAST_IOU
        is_same &= found.classes[:, np.newaxis] == wanted.classes
        is_same &= wanted.scores >= found.scores[:, np.newaxis] - self.noise
        is_full = len(wanted.scores) >= self.most_wanted
        return np.asarray(
            is_same.any(axis=1) | (is_full and found.scores <= wanted.scores.min() + self.noise), bool
        )


def _overlaps(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return iou_px(one, other, np.zeros(len(other), bool))
