"""COCO's metrics (Lin et al., Microsoft COCO, ECCV 2014) under the Object Detection API's names."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from detection_core.artifacts.coco_names import (
    COCO_METRICS,
    KEYPOINT_METRICS,
    MAP,
    MASK_METRICS,
    NOTHING_TO_MEASURE,
    category_metric,
    group_metric,
)
from detection_core.evaluation.coco_objects import coco_dictionaries, keypoint_sigmas
from detection_core.evaluation.results import EvaluatedImage

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
    """How one of COCO's numbers is taken from the tables of precision and recall.

    Attributes:
        is_precision: average precision; else average recall.
        iou: index in `IOU_THRESHOLDS`; None for their mean.
        area: name of the area range.
        max_detections: index in `MAX_DETECTIONS`, or from the end in what the kind has.
    """

    is_precision: bool = True
    iou: int | None = None
    area: str = "all"
    max_detections: int = -1


_TWELVE = (
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
)
_OF_KEYPOINTS = (Summary(), Summary(iou=0), Summary(iou=5), Summary(area="medium"), Summary(area="large"))
SUMMARIES = dict(zip(COCO_METRICS, _TWELVE, strict=True))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kind:
    """What detections and objects are compared by.

    Attributes:
        iou_type: COCO's name of it.
        summaries: name of a metric to how it is taken, the mAP first.
        areas: names of the area ranges.
    """

    iou_type: str
    summaries: Mapping[str, Summary]
    areas: tuple[str, ...] = tuple(AREA_RANGES)

    @property
    def map_name(self) -> str:
        """Name of its mAP."""
        return next(iter(self.summaries))


BOXES = Kind(iou_type="bbox", summaries=SUMMARIES)
SHAPE_KINDS = {
    "coco_mask_metrics": Kind(iou_type="segm", summaries=dict(zip(MASK_METRICS, _TWELVE, strict=True))),
    "coco_keypoint_metrics": Kind(
        iou_type="keypoints",
        summaries=dict(
            zip(
                KEYPOINT_METRICS,
                (*_OF_KEYPOINTS, *(dataclasses.replace(s, is_precision=False) for s in _OF_KEYPOINTS)),
                strict=True,
            )
        ),
        areas=("all", "medium", "large"),
    ),
}
"""Set of metrics of an `eval_config` to what it compares."""


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
        kind: what was compared.
    """

    classes: tuple[int, ...]
    names: tuple[str, ...]
    precision: np.ndarray
    scores: np.ndarray
    recall: np.ndarray
    kind: Kind = BOXES

    def metrics(
        self,
        *,
        per_category: bool = False,
        all_per_category: bool = False,
        groups: Mapping[str, Sequence[str]] | None = None,
    ) -> dict[str, float]:
        """Return COCO's numbers, -1 where there is nothing to measure.

        Args:
            per_category: add each class's mAP.
            all_per_category: add all numbers of each class.
            groups: add the mean mAP of each of these groups of classes, by their names; classes without an
                object are left out.
        """
        everything, summaries, map_name = range(len(self.classes)), self.kind.summaries, self.kind.map_name
        found = {name: self._summarise(summary, everything) for name, summary in summaries.items()}
        for k, name in enumerate(self.names):
            if per_category or all_per_category:
                found[category_metric(name, map_name)] = self._summarise(summaries[map_name], [k])
            if all_per_category:
                for metric, summary in summaries.items():
                    found[_by_category(metric, name)] = self._summarise(summary, [k])
        for group, members in (groups or {}).items():
            found[group_metric(group, map_name)] = self._summarise(
                summaries[map_name], [self.names.index(member) for member in members]
            )
        return found

    def _summarise(self, summary: Summary, classes: Sequence[int]) -> float:
        area = self.kind.areas.index(summary.area)
        table = self.precision if summary.is_precision else self.recall
        values = table[..., list(classes), area, summary.max_detections]
        if summary.iou is not None:
            values = values[summary.iou]
        known = values[values > NOTHING_TO_MEASURE]
        return float(known.mean()) if known.size else NOTHING_TO_MEASURE


def evaluate_coco(
    images: Sequence[EvaluatedImage], class_names: Mapping[int, str], kind: Kind = BOXES
) -> CocoResult:
    """Match detections with ground truth as COCO does and accumulate precision and recall.

    Gives the numbers of pycocotools (Lin et al., Microsoft COCO, 2014), counted by faster-coco-eval.

    Args:
        images: every image of the split once; crowds are neither hits nor misses. An object's area comes from
            its record, its mask's or box's where the record has none.
        class_names: class in [0, C) to name; detections and objects of other classes are left out.
        kind: what is compared. Keypoints have the tolerances of COCO's persons where there are 17 of them.

    Raises:
        DataError: for an object without the mask or keypoints that are to be compared.
        ModelError: for a detection without them.
    """
    from faster_coco_eval import COCO, COCOeval_faster

    truth, found = coco_dictionaries(images, class_names, kind.iou_type)
    engine = COCOeval_faster(
        COCO(truth),
        COCO(found),
        kind.iou_type,
        print_function=_silent,
        kpt_oks_sigmas=keypoint_sigmas(images) if kind.iou_type == "keypoints" else None,
    )
    # Of keypoints it would leave out the classes without an object.
    engine.params.catIds = [c + 1 for c in sorted(class_names)]
    engine.evaluate()
    engine.accumulate()
    classes = tuple(sorted(class_names))
    return CocoResult(
        classes=classes,
        names=tuple(class_names[c] for c in classes),
        precision=np.asarray(engine.eval["precision"], np.float64),
        scores=np.asarray(engine.eval["scores"], np.float64),
        recall=np.asarray(engine.eval["recall"], np.float64),
        kind=kind,
    )


def _silent(*_: object) -> None:
    """Take the engine's progress text and drop it."""
