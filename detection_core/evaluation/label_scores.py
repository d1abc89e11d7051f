"""Scores of labels by detections that were made without them, as ObjectLab defines them.

Tkachenko, Thyagarajan and Mueller, "ObjectLab: Automated Diagnosis of Mislabeled Images in Object Detection
Data", https://arxiv.org/abs/2309.00832. A score is in [0, 1]; the lower, the more likely is an error.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from detection_core.artifacts.label_errors import BADLY_LOCATED, KINDS, OVERLOOKED, SWAPPED
from detection_core.evaluation.error_kinds import TOUCHING
from detection_core.evaluation.results import (
    EvaluatedImage,
    best_score_threshold,
    box_iou,
    boxes_xywh,
    match_image,
)

_PER_PIXEL = 0.1
"""How fast the similarity of two boxes falls with the distance of their centers."""
NONE = -1


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelErrorOptions:
    """Parameters of the scores.

    The published thresholds, 0.5 and 0.95, are probabilities. A detector's scores are not: trained with focal
    loss, few reach 0.95. So the defaults follow the detections: see `with_thresholds`.

    Attributes:
        alpha: weight of the IoU in the similarity of two boxes; the distance of centers has the rest.
        low_score: detections above it are compared with labels of their class, to find badly located ones.
            None: half of `high_score`.
        high_score: detections from it on show overlooked objects and swapped classes. None: the score with
            the best F1.
        temperature: of the soft minimum over the boxes of an image; 0.1 is close to the minimum.
    """

    alpha: float = 0.9
    low_score: float | None = None
    high_score: float | None = None
    temperature: float = 0.1

    def with_thresholds(self, images: Sequence[EvaluatedImage]) -> "LabelErrorOptions":
        """Return the options with both thresholds, where missing from the images' detections."""
        high = self.high_score
        if high is None:
            high = best_score_threshold(images, [match_image(image) for image in images])
        low = high / 2 if self.low_score is None else self.low_score
        return dataclasses.replace(self, low_score=low, high_score=high)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoredBox:
    """One score.

    Attributes:
        kind: one of `artifacts.label_errors.KINDS`.
        image: index of the image.
        score: in [0, 1].
        label: row of the label in question; for an overlooked object that of the most similar label, if any.
            `NONE` for none.
        detection: row of the detection that decided; `NONE` for none.
        detected: score of that detection; 0 for none.
    """

    kind: str
    image: int
    score: float
    label: int
    detection: int
    detected: float


def score_labels(
    images: Sequence[EvaluatedImage], options: LabelErrorOptions
) -> tuple[list[ScoredBox], np.ndarray]:
    """Return a score for each label, crowds excepted, and for each detection from the high score on.

    `options` have both thresholds. Also return each image's score, float64 [N]: the geometric mean of the
    kinds' soft minima.
    """
    compared = [_compare(image, options.alpha) for image in images]
    positive = [values[values > 0].min() for _, values in compared if (values > 0).any()]
    least = float(min(positive, default=1.0))
    found: list[ScoredBox] = []
    qualities: np.ndarray = np.ones(len(images))
    for place, (image, (overlap, similarity)) in enumerate(zip(images, compared, strict=True)):
        scores: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for kind, score, label, row in _score_image(image, overlap, similarity, least, options):
            scores[kind].append(score)
            detected = 0.0 if row == NONE else float(image.detections.scores[row])
            found.append(
                ScoredBox(kind=kind, image=place, score=score, label=label, detection=row, detected=detected)
            )
        pooled = [soft_minimum(np.array(values), options.temperature) for values in scores.values()]
        qualities[place] = np.prod(pooled) ** (1 / len(pooled))
    return found, qualities


def _compare(image: EvaluatedImage, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Return IoU and similarity of each label with each detection, float64 [G, D], in [0, 1]."""
    labels, found = boxes_xywh(image.truth, image.truth), boxes_xywh(image.detections, image.truth)
    overlaps = box_iou(found, labels[:, np.newaxis], image.truth.is_crowd[:, np.newaxis])
    centers, others = (boxes[:, :2] + boxes[:, 2:] / 2 for boxes in (labels, found))
    distances = np.linalg.norm(centers[:, np.newaxis] - others, axis=-1)
    return overlaps, alpha * overlaps + (1 - alpha) * np.exp(-_PER_PIXEL * distances)


def _score_image(
    image: EvaluatedImage,
    overlaps: np.ndarray,
    similarity: np.ndarray,
    least: float,
    options: LabelErrorOptions,
) -> Iterator[tuple[str, float, int, int]]:
    """Yield kind, score, label and detection. `least` is the lowest similarity above 0 of all images.

    A label that no detection of its class overlaps is not scored as badly located: nothing shows where its
    box should be, the object may just not be detected.
    """
    labels, found = image.truth, image.detections
    high, low = options.high_score or 0.0, options.low_score or 0.0
    same = labels.classes[:, np.newaxis] == found.classes
    for row in np.flatnonzero(found.scores >= high).tolist():
        label = _best(similarity[:, row], same[:, row])
        alone = least * (1 - float(found.scores[row]))
        yield OVERLOOKED, alone if label == NONE else float(similarity[label, row]), label, row
    for label in np.flatnonzero(~labels.is_crowd).tolist():
        own = _best(similarity[label], same[label] & (found.scores > low) & (overlaps[label] > 0))
        yield BADLY_LOCATED, 1.0 if own == NONE else float(similarity[label, own]), label, own
        other = _best(similarity[label], ~same[label] & (found.scores >= high))
        unlike = 1.0 if other == NONE else max(least, 1 - float(similarity[label, other]))
        yield SWAPPED, unlike, label, other


def _best(values: np.ndarray, allowed: np.ndarray) -> int:
    """Return where the largest allowed value is; `NONE` if none is allowed."""
    return int(np.where(allowed, values, -1.0).argmax()) if allowed.any() else NONE


def soft_minimum(scores: np.ndarray, temperature: float) -> float:
    """Return the mean of scores, float64 [N], weighted by a softmax of their negatives; 1 for no score."""
    if not scores.size:
        return 1.0
    weights = np.exp((scores.min() - scores) / temperature)
    return float((weights * scores).sum() / weights.sum())


def rank(
    found: Sequence[ScoredBox], options: LabelErrorOptions, count: int, below: float
) -> Mapping[str, list[ScoredBox]]:
    """Return the lowest scores of each kind in order: at most `count`, each below a score.

    Of scores that agree in two decimals, the one with the more confident detection is first. A label is only
    listed as badly located if the detection overlaps it with the least IoU that TIDE asks of localization
    errors.
    """
    least = {BADLY_LOCATED: options.alpha * TOUCHING}
    ordered = sorted(found, key=lambda box: (round(box.score, 2), -box.detected, box.image, box.label))
    return {
        kind: [box for box in ordered if box.kind == kind and least.get(kind, 0) <= box.score < below][:count]
        for kind in KINDS
    }
