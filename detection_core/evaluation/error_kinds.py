"""Why a detection found no object, by TIDE's kinds of errors.

Bolya et al., TIDE: A General Toolbox for Identifying Object Detection Errors, ECCV 2020,
https://arxiv.org/abs/2008.08115.
"""

import numpy as np

from detection_core.artifacts.evaluation import BACKGROUND, BOTH, CLASSIFICATION, DUPLICATE, LOCALIZATION
from detection_core.evaluation.results import IOU_THRESHOLD, EvaluatedImage, ImageMatch

TOUCHING = 0.1
"""Up to this overlap, a detection and an object are unrelated."""


def classify_errors(image: EvaluatedImage, match: ImageMatch) -> tuple[np.ndarray, np.ndarray]:
    """Say why each of an image's D detections found no object. Crowds are no objects here.

    Returns:
        Kinds, text [D], `CLASSIFICATION` to `BACKGROUND`, or "" for a detection that found an object. And the
        object that it was meant for or found, int [D], which is arbitrary for `BACKGROUND`.
    """
    truth = image.truth
    # The last column stands for no object, so that an image without objects is no special case.
    overlaps = np.pad(np.where(truth.is_crowd, 0.0, match.overlaps), ((0, 0), (0, 1)))
    same = image.detections.classes[:, np.newaxis] == np.append(truth.classes, -1)
    own, other = overlaps * same, overlaps * ~same
    best, best_other = own.max(axis=1), other.max(axis=1)
    kinds = np.select(
        [
            match.found_by >= 0,
            (best >= TOUCHING) & (best <= IOU_THRESHOLD),
            best_other >= IOU_THRESHOLD,
            best > IOU_THRESHOLD,
            best_other <= TOUCHING,
        ],
        ["", LOCALIZATION, CLASSIFICATION, DUPLICATE, BACKGROUND],
        BOTH,
    )
    meant = np.where(np.isin(kinds, (LOCALIZATION, DUPLICATE)), own.argmax(axis=1), other.argmax(axis=1))
    return kinds, np.where(match.found_by >= 0, match.found_by, meant)
