"""COCO's box metrics (Lin et al., Microsoft COCO, ECCV 2014) under the Object Detection API's names."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from detection_core.artifacts.coco_names import (
    COCO_METRICS,
    MAP,
    NOTHING_TO_MEASURE,
    category_metric,
    group_metric,
)
from detection_core.evaluation.results import EvaluatedImage, box_areas, to_px

AREA_RANGES = {
    "all": (0.0, 1e5**2),
    "small": (0.0, 32.0**2),
    "medium": (32.0**2, 96.0**2),
    "large": (96.0**2, 1e5**2),
}
IOU_THRESHOLDS = np.linspace(0.5, 0.95, 10)
RECALLS = np.linspace(0.0, 1.0, 101)
MAX_DETECTIONS = (1, 10, 100)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """How one of the twelve numbers is taken from the tables of precision and recall.

    Attributes:
        is_precision: average precision; else average recall.
        iou: index in `IOU_THRESHOLDS`; None for their mean.
        area: name of the area range.
        max_detections: index in `MAX_DETECTIONS`.
    """

    is_precision: bool = True
    iou: int | None = None
    area: str = "all"
    max_detections: int = 2


SUMMARIES = dict(
    zip(
        COCO_METRICS,
        (
            Summary(),
            Summary(iou=0),
            Summary(iou=5),
            Summary(area="small"),
            Summary(area="medium"),
            Summary(area="large"),
            Summary(is_precision=False, max_detections=0),
            Summary(is_precision=False, max_detections=1),
            Summary(is_precision=False),
            Summary(is_precision=False, area="small"),
            Summary(is_precision=False, area="medium"),
            Summary(is_precision=False, area="large"),
        ),
        strict=True,
    )
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measure:
    """What a metric is the mean of.

    Attributes:
        summary: which of the twelve numbers.
        classes: in [0, C), of which.
    """

    summary: Summary
    classes: tuple[int, ...]


def find_measures(
    metrics: Sequence[str], class_names: Mapping[int, str], groups: Mapping[str, Sequence[str]]
) -> dict[str, Measure]:
    """Return what COCO's metrics are made of.

    Args:
        metrics: names as `CocoResult.metrics` gives them; others are left out.
        class_names: class in [0, C) to name.
        groups: as in `CocoResult.metrics`.
    """
    everything = tuple(sorted(class_names))
    known = {name: Measure(summary=summary, classes=everything) for name, summary in SUMMARIES.items()}
    for class_, name in class_names.items():
        known[category_metric(name)] = Measure(summary=SUMMARIES[MAP], classes=(class_,))
        for metric, summary in SUMMARIES.items():
            known[_by_category(metric, name)] = Measure(summary=summary, classes=(class_,))
    for group, members in groups.items():
        classes = tuple(class_ for class_ in everything if class_names[class_] in members)
        known[group_metric(group)] = Measure(summary=SUMMARIES[MAP], classes=classes)
    return {metric: known[metric] for metric in metrics if metric in known}


def _by_category(metric: str, name: str) -> str:
    return f"{metric.replace('/', ' ')} ByCategory/{name}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class CocoResult:
    """Precision and recall over everything COCO varies: T IoUs, R recalls, K classes, A areas, M limits.

    Attributes:
        classes: class of each k, rising, in [0, C).
        names: name of each k.
        precision: float64 [T, R, K, A, M], -1 where a class has no object.
        scores: float64 [T, R, K, A, M], score from which that recall is reached.
        recall: float64 [T, K, A, M], -1 where a class has no object.
    """

    classes: tuple[int, ...]
    names: tuple[str, ...]
    precision: np.ndarray
    scores: np.ndarray
    recall: np.ndarray

    def metrics(
        self,
        *,
        per_category: bool = False,
        all_per_category: bool = False,
        groups: Mapping[str, Sequence[str]] | None = None,
    ) -> dict[str, float]:
        """Return the twelve numbers, -1 where there is nothing to measure.

        Args:
            per_category: add each class's mAP.
            all_per_category: add all twelve numbers of each class.
            groups: add the mean mAP of each of these groups of classes, by their names; classes without an
                object are left out.
        """
        everything = range(len(self.classes))
        found = {name: self._summarise(summary, everything) for name, summary in SUMMARIES.items()}
        for k, name in enumerate(self.names):
            if per_category or all_per_category:
                found[category_metric(name)] = self._summarise(SUMMARIES[MAP], [k])
            if all_per_category:
                for metric, summary in SUMMARIES.items():
                    found[_by_category(metric, name)] = self._summarise(summary, [k])
        for group, members in (groups or {}).items():
            found[group_metric(group)] = self._summarise(
                SUMMARIES[MAP], [self.names.index(member) for member in members]
            )
        return found

    def _summarise(self, summary: Summary, classes: Sequence[int]) -> float:
        area = list(AREA_RANGES).index(summary.area)
        table = self.precision if summary.is_precision else self.recall
        values = table[..., list(classes), area, summary.max_detections]
        if summary.iou is not None:
            values = values[summary.iou]
        known = values[values > NOTHING_TO_MEASURE]
        return float(known.mean()) if known.size else NOTHING_TO_MEASURE


def evaluate_coco(images: Sequence[EvaluatedImage], class_names: Mapping[int, str]) -> CocoResult:
    """Match detections with ground truth as COCO does and accumulate precision and recall.

    Gives the numbers of pycocotools (Lin et al., Microsoft COCO, 2014), counted by faster-coco-eval.

    Args:
        images: every image of the split once; crowds are neither hits nor misses. An object's area comes from
            its record, its box's where the record has none.
        class_names: class in [0, C) to name; detections and objects of other classes are left out.
    """
    from faster_coco_eval import COCO, COCOeval_faster

    truth, found = coco_dictionaries(images, class_names)
    engine = COCOeval_faster(COCO(truth), COCO(found), "bbox", print_function=_silent)
    engine.evaluate()
    engine.accumulate()
    classes = tuple(sorted(class_names))
    return CocoResult(
        classes=classes,
        names=tuple(class_names[c] for c in classes),
        precision=np.asarray(engine.eval["precision"], np.float64),
        scores=np.asarray(engine.eval["scores"], np.float64),
        recall=np.asarray(engine.eval["recall"], np.float64),
    )


def coco_dictionaries(
    images: Sequence[EvaluatedImage], class_names: Mapping[int, str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return ground truth and detections as the two data sets of COCO's tools.

    Images are numbered from 1 in their order, annotations from 1 (0 means "unmatched" in COCO's tools).
    Boxes are x, y, width, height in pixels.
    """
    shared = {
        "info": {},
        "images": [
            {"id": i, "height": image.truth.height, "width": image.truth.width}
            for i, image in enumerate(images, start=1)
        ],
        "categories": [{"id": c + 1, "name": class_names[c]} for c in sorted(class_names)],
    }
    truth: list[dict[str, Any]] = []
    found: list[dict[str, Any]] = []
    for image_id, image in enumerate(images, start=1):
        truth += _true_objects(image, image_id)
        found += _detected_objects(image, image_id)
    for objects in (truth, found):
        objects[:] = [a for a in objects if a["category_id"] - 1 in class_names]
        for number, annotation in enumerate(objects, start=1):
            annotation["id"] = number
    return {**shared, "annotations": truth}, {**shared, "annotations": found}


def _true_objects(image: EvaluatedImage, image_id: int) -> list[dict[str, Any]]:
    truth = image.truth
    boxes = to_px(truth.boxes, truth)
    areas = np.where(truth.area > 0, truth.area, box_areas(boxes))
    return [
        {"image_id": image_id, "category_id": c + 1, "bbox": b, "area": a, "iscrowd": int(crowd)}
        for c, b, a, crowd in zip(
            truth.classes.tolist(), _xywh(boxes), areas.tolist(), truth.is_crowd.tolist(), strict=True
        )
    ]


def _detected_objects(image: EvaluatedImage, image_id: int) -> list[dict[str, Any]]:
    found = image.detections
    boxes = _xywh(to_px(found.boxes, image.truth))
    return [
        {"image_id": image_id, "category_id": c + 1, "bbox": b, "area": b[2] * b[3], "score": s, "iscrowd": 0}
        for c, b, s in zip(found.classes.tolist(), boxes, found.scores.tolist(), strict=True)
    ]


def _xywh(boxes: np.ndarray) -> list[list[float]]:
    low, high = boxes[:, 1::-1], boxes[:, :1:-1]
    return np.concatenate([low, high - low], axis=1).tolist()


def _silent(*_: object) -> None:
    """Take the engine's progress text and drop it."""
