"""LVIS's metrics of masks (Gupta et al., LVIS, CVPR 2019), see https://github.com/lvis-dataset/lvis-api.

In an image, only its own classes and those verified as absent are measured. False positives of a class that
is not annotated exhaustively do not count. An image's best 300 detections of all classes are measured.
"""

import itertools
from collections.abc import Mapping, Sequence

from detection_core.artifacts.evaluation import LVIS_METRICS
from detection_core.evaluation.coco_format import coco_dictionaries
from detection_core.evaluation.coco_metrics import Kind, Summary, run_engine
from detection_core.evaluation.results import EvaluatedImage

_MOST = 300
_SIZES = ("small", "medium", "large")
_PRECISIONS = (Summary(), Summary(iou=0), Summary(iou=5), *(Summary(area=size) for size in _SIZES))
_RECALLS = tuple(Summary(is_precision=False, area=size) for size in ("all", *_SIZES))
_FREQUENCIES = ("RARE", "COMMON", "FREQUENT")
_OVERALL, _BY_FREQUENCY = len(_PRECISIONS), len(_PRECISIONS) + len(_FREQUENCIES)
KIND = Kind(
    iou_type="segm",
    summaries=dict(
        zip(LVIS_METRICS[:_OVERALL] + LVIS_METRICS[_BY_FREQUENCY:], (*_PRECISIONS, *_RECALLS), strict=True)
    ),
)


def evaluate_lvis(
    images: Sequence[EvaluatedImage], class_names: Mapping[int, str], frequencies: Mapping[int, str]
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
    truth, found = coco_dictionaries(images, class_names, "segm")
    truth["annotations"] = [a | {"iscrowd": 0} for a in truth["annotations"] if a["area"] > 0]
    for category in truth["categories"]:
        category["frequency"] = "f"  # the engine needs one; its averages by frequency are not used
    verified = {(a["image_id"], a["category_id"]) for a in truth["annotations"]}
    for entry, image in zip(truth["images"], images, strict=True):
        entry["neg_category_ids"] = (image.truth.labelled + 1).tolist()
        entry["not_exhaustive_category_ids"] = (image.truth.not_exhaustive + 1).tolist()
        verified.update((entry["id"], id_) for id_ in entry["neg_category_ids"])
    of_images = itertools.groupby(found["annotations"], lambda a: a["image_id"])
    best = (a for _, group in of_images for a in itertools.islice(group, _MOST))
    # The engine leaves out detections of classes that were not verified, but fails if an image has no others.
    found["annotations"] = [
        a for a in best if a["area"] > 0 and (a["image_id"], a["category_id"]) in verified
    ]
    result = run_engine(truth, found, class_names, KIND, most=[_MOST], lvis_style=True)
    metrics = result.metrics()
    for name, frequency in zip(LVIS_METRICS[_OVERALL:_BY_FREQUENCY], _FREQUENCIES, strict=True):
        of_classes = [k for k, class_ in enumerate(result.classes) if frequencies.get(class_) == frequency]
        metrics[name] = result.summarise(Summary(), of_classes)
    return {name: metrics[name] for name in LVIS_METRICS}
