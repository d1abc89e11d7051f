"""LVIS's metrics of masks (Gupta et al., LVIS, CVPR 2019), see https://github.com/lvis-dataset/lvis-api.

In an image, only its own classes and those verified as absent are measured. False positives of a class that
is not annotated exhaustively do not count. An image's best 300 detections of all classes are measured.
"""

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np

from detection_core.artifacts.evaluation import LVIS_METRICS
from detection_core.evaluation.coco_format import check_shapes
from detection_core.evaluation.coco_metrics import SUMMARIES, Kind, Summary, evaluate_coco
from detection_core.evaluation.results import EvaluatedImage
from detection_core.ops.mask_runs import mask_areas

_MOST = 300
# Of COCO's metrics, all but the recalls of fewer detections.
_SUMMARIES = [summary for summary in SUMMARIES.values() if summary.max_detections == -1]
_FREQUENCIES = ("RARE", "COMMON", "FREQUENT")
_OVERALL = sum(summary.is_precision for summary in _SUMMARIES)
_BY_FREQUENCY = _OVERALL + len(_FREQUENCIES)
KIND = Kind(
    iou_type="segm",
    most=(_MOST,),
    exhaustive=False,
    summaries=dict(zip(LVIS_METRICS[:_OVERALL] + LVIS_METRICS[_BY_FREQUENCY:], _SUMMARIES, strict=True)),
)


def evaluate_lvis(
    images: Iterable[EvaluatedImage], class_names: Mapping[int, str], frequencies: Mapping[int, str]
) -> dict[str, float]:
    """Return LVIS's metrics, -1 for undefined values.

    As there, crowds are objects like any others, and masks without a pixel are left out.

    Args:
        images: every image once, with masks.
        class_names: class in [0, C) to name; others are left out.
        frequencies: class in [0, C) to `RARE`, `COMMON` or `FREQUENT`, where known.

    Raises:
        DataError: for an object without a mask.
        ModelError: for a detection without one.
    """
    result = evaluate_coco(map(_verified, images), class_names, KIND)
    metrics = result.metrics()
    for name, frequency in zip(LVIS_METRICS[_OVERALL:_BY_FREQUENCY], _FREQUENCIES, strict=True):
        of_classes = [k for k, class_ in enumerate(result.classes) if frequencies.get(class_) == frequency]
        metrics[name] = result.summarise(Summary(), of_classes)
    return {name: metrics[name] for name in LVIS_METRICS}


def _verified(image: EvaluatedImage) -> EvaluatedImage:
    """Return what LVIS measures of an image."""
    check_shapes(image, KIND.iou_type)
    truth, found = image.truth, image.detections
    has_area = (mask_areas(truth.masks, truth.height, truth.width) > 0) | (truth.area > 0)
    truth = dataclasses.replace(truth, is_crowd=np.zeros_like(truth.is_crowd)).take(has_area)
    verified = np.isin(found.classes, np.union1d(truth.labelled, truth.classes))
    kept = verified & (mask_areas(found.masks, truth.height, truth.width) > 0)
    kept[_MOST:] = False
    return EvaluatedImage(truth=truth, detections=found.take(kept))
