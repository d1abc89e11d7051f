"""COCO's metrics (Lin et al., Microsoft COCO, ECCV 2014) under the Object Detection API's names."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from detection_core.artifacts import evaluation
from detection_core.evaluation import coco_matching
from detection_core.evaluation.results import EvaluatedImage

RECALLS = np.linspace(0.0, 1.0, 101)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """Definition of one COCO metric from the tables of precision and recall.

    Attributes:
        is_precision: average precision; else average recall.
        iou: index in `IOU_THRESHOLDS`; None for their mean.
        area: name of the area range.
        max_detections: index in `MAX_DETECTIONS`; a negative one counts from the end of the kind's list.
    """

    is_precision: bool = True
    iou: int | None = None
    area: str = "all"
    max_detections: int = -1


_SIZES = ("small", "medium", "large")
_TWELVE = (
    *(Summary(), Summary(iou=0), Summary(iou=5)),
    *(Summary(area=size) for size in _SIZES),
    *(Summary(is_precision=False, max_detections=limit) for limit in (0, 1, -1)),
    *(Summary(is_precision=False, area=size) for size in _SIZES),
)
_PRECISIONS = (Summary(), Summary(iou=0), Summary(iou=5), Summary(area="medium"), Summary(area="large"))
_TEN = (*_PRECISIONS, *(dataclasses.replace(summary, is_precision=False) for summary in _PRECISIONS))
SUMMARIES = dict(zip(evaluation.COCO_METRICS, _TWELVE, strict=True))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kind(coco_matching.Comparison):
    """A comparison and its metrics.

    Attributes:
        summaries: name of a metric to its definition, the mAP first.
    """

    summaries: Mapping[str, Summary]

    @property
    def map_name(self) -> str:
        """Name of the mAP."""
        return next(iter(self.summaries))


BOXES = Kind(iou_type="bbox", summaries=SUMMARIES)
MASKS = Kind(iou_type="segm", summaries=dict(zip(evaluation.MASK_METRICS, _TWELVE, strict=True)))
SHAPE_KINDS = {
    "coco_mask_metrics": MASKS,
    "coco_keypoint_metrics": Kind(
        iou_type="keypoints",
        summaries=dict(zip(evaluation.KEYPOINT_METRICS, _TEN, strict=True)),
        areas=("all", "medium", "large"),
        most=(20,),
    ),
}
"""Metric set of an `eval_config` to its kind."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measure:
    """A kind of COCO metrics, one of them, and the classes in [0, C) to average over."""

    kind: Kind
    summary: Summary
    classes: tuple[int, ...]


def find_measures(
    metrics: Sequence[str], class_names: Mapping[int, str], groups: Mapping[str, Sequence[str]]
) -> dict[str, Measure]:
    """Return the definitions of COCO's metrics by name; others are left out, arguments as in `CocoResult`."""
    everything = tuple(sorted(class_names))
    known: dict[str, Measure] = {}
    for kind in (BOXES, *SHAPE_KINDS.values()):
        summaries, map_name = kind.summaries, kind.map_name

        def add(metric: str, name: str, classes: tuple[int, ...], kind: Kind = kind) -> None:
            known[name] = Measure(kind=kind, summary=kind.summaries[metric], classes=classes)

        for metric in summaries:
            add(metric, metric, everything)
            for class_, name in class_names.items():
                add(metric, _by_category(metric, name), (class_,))
        for class_, name in class_names.items():
            add(map_name, evaluation.category_metric(name, map_name), (class_,))
        for group, members in groups.items():
            classes = tuple(class_ for class_ in everything if class_names[class_] in members)
            add(map_name, evaluation.group_metric(group, map_name), classes)
    return {metric: known[metric] for metric in metrics if metric in known}


def _by_category(metric: str, name: str) -> str:
    return f"{metric.replace('/', ' ')} ByCategory/{name}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class CocoResult:
    """COCO's precision and recall tables: T IoUs, R recalls, K classes, A areas, M limits.

    Attributes:
        classes: class of each k, rising, in [0, C).
        names: name of each k.
        precision: float64 [T, R, K, A, M], -1 for a class without objects.
        scores: float64 [T, R, K, A, M], score at which that recall is reached.
        recall: float64 [T, K, A, M], -1 for a class without objects.
        kind: the compared shape.
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
        """Return COCO's metrics, -1 for undefined values; also each class's mAP, or all of its metrics.

        `groups` adds the mean mAP of each named group of classes; classes without an object are left out.
        """
        everything, summaries, map_name = range(len(self.classes)), self.kind.summaries, self.kind.map_name
        found = {name: self.summarise(summary, everything) for name, summary in summaries.items()}
        for k, name in enumerate(self.names):
            if per_category or all_per_category:
                found[evaluation.category_metric(name, map_name)] = self.summarise(summaries[map_name], [k])
            if all_per_category:
                for metric, summary in summaries.items():
                    found[_by_category(metric, name)] = self.summarise(summary, [k])
        for group, members in (groups or {}).items():
            found[evaluation.group_metric(group, map_name)] = self.summarise(
                summaries[map_name], [self.names.index(member) for member in members]
            )
        return found

    def summarise(self, summary: Summary, classes: Sequence[int]) -> float:
        """Return a metric over classes, by their k."""
        area = self.kind.areas.index(summary.area)
        table = self.precision if summary.is_precision else self.recall
        values = table[..., list(classes), area, summary.max_detections]
        if summary.iou is not None:
            values = values[summary.iou]
        known = values[values > evaluation.NOTHING_TO_MEASURE]
        return float(known.mean()) if known.size else evaluation.NOTHING_TO_MEASURE


def evaluate_coco(
    images: Iterable[EvaluatedImage], class_names: Mapping[int, str], kind: Kind = BOXES
) -> CocoResult:
    """Match detections with ground truth as COCO does and accumulate precision and recall.

    The numbers equal those of pycocotools. Arguments and errors are those of `match_images`.
    """
    return accumulate(coco_matching.match_images(images, class_names, kind), class_names, kind)


def accumulate(table: coco_matching.MatchTable, class_names: Mapping[int, str], kind: Kind) -> CocoResult:
    """Return COCO's precision and recall of the matches of all images."""
    classes = tuple(sorted(class_names))
    size = (len(coco_matching.IOU_THRESHOLDS), len(RECALLS), len(classes), len(kind.areas), len(kind.most))
    precision, scores = np.full(size, -1.0), np.full(size, -1.0)
    recall = np.full((size[0], *size[2:]), -1.0)
    of_class = table.by_class()
    for k, label in enumerate(classes):
        own = of_class(label)
        for a in np.flatnonzero(own.counts.any(axis=0)):
            for m, curves in enumerate(_curves(own, int(a), kind.most)):
                for t, curve in enumerate(curves):
                    precision[t, :, k, a, m], scores[t, :, k, a, m], recall[t, k, a, m] = curve
    return CocoResult(
        classes=classes,
        names=tuple(class_names[c] for c in classes),
        precision=precision,
        scores=scores,
        recall=recall,
        kind=kind,
    )


_Curve = tuple[np.ndarray, np.ndarray, float]
"""Precision and score at each of `RECALLS`, and the recall of all detections."""


def _curves(own: coco_matching.MatchTable, area: int, limits: Sequence[int]) -> Iterator[list[_Curve]]:
    """Yield a class's curves at each IoU threshold, for each limit of an image's detections."""
    hits, ignored = coco_matching.unpack(own.hits[:, area]), coco_matching.unpack(own.ignored[:, area])
    objects = int(own.counts[:, area].sum())
    curves: list[_Curve] = []
    before = -1
    for limit in limits:
        kept = np.flatnonzero(own.rank < limit)
        if len(kept) != before:  # Else a higher limit changes nothing.
            at_threshold = zip(hits[:, kept], ignored[:, kept], strict=True)
            curves = [_curve(own.scores[kept], *flags, objects) for flags in at_threshold]
        before = len(kept)
        yield curves


def _curve(scores: np.ndarray, hits: np.ndarray, ignored: np.ndarray, objects: int) -> _Curve:
    """Return the curve of detections by falling score."""
    precision_at, score_at = np.zeros(len(RECALLS)), np.zeros(len(RECALLS))
    places = np.flatnonzero(hits)
    score_at[0] = scores[0] if len(scores) else 0.0
    if not len(places):
        return precision_at, score_at, 0.0
    found = np.arange(1, len(places) + 1)
    counted = np.cumsum(~ignored)[places]
    # pycocotools divides by a denominator that cannot be 0. Only a hit raises precision and recall.
    precision = found / (counted + np.spacing(1))
    highest = np.maximum.accumulate(precision[::-1])[::-1]
    reached = np.asarray(np.searchsorted(found / objects, RECALLS))
    known: np.ndarray = reached < len(places)
    precision_at[known] = highest[reached[known]]
    score_at[1:][known[1:]] = scores[places[reached[known]]][1:]
    return precision_at, score_at, len(places) / objects
