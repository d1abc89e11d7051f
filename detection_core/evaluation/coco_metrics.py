"""COCO's metrics (Lin et al., Microsoft COCO, ECCV 2014) under the Object Detection API's names."""

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from detection_core.artifacts import evaluation
from detection_core.evaluation.coco_format import coco_dictionaries, keypoint_sigmas
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
_PRECISIONS = (Summary(), Summary(iou=0), Summary(iou=5), Summary(area="medium"), Summary(area="large"))
_TEN = (*_PRECISIONS, *(dataclasses.replace(summary, is_precision=False) for summary in _PRECISIONS))
SUMMARIES = dict(zip(evaluation.COCO_METRICS, _TWELVE, strict=True))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kind:
    """Shape that detections and objects are compared by.

    Attributes:
        iou_type: COCO's name.
        summaries: name of a metric to its definition, the mAP first.
        areas: names of the area ranges.
    """

    iou_type: str
    summaries: Mapping[str, Summary]
    areas: tuple[str, ...] = tuple(AREA_RANGES)

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
    images: Sequence[EvaluatedImage], class_names: Mapping[int, str], kind: Kind = BOXES
) -> CocoResult:
    """Match detections with ground truth as COCO does and accumulate precision and recall.

    The numbers equal those of pycocotools (Lin et al., Microsoft COCO, 2014); faster-coco-eval computes them.

    Args:
        images: every image of the split once; crowds are neither hits nor misses. An object's area comes from
            its record, or else from its mask or box.
        class_names: class in [0, C) to name; detections and objects of other classes are left out.
        kind: the compared shape. 17 keypoints have the tolerances of COCO's persons.

    Raises:
        DataError: for an object without the required mask or keypoints.
        ModelError: for a detection without them.
    """
    truth, found = coco_dictionaries(images, class_names, kind.iou_type)
    return run_engine(truth, found, class_names, kind, kpt_oks_sigmas=_sigmas(images, kind))


def _sigmas(images: Sequence[EvaluatedImage], kind: Kind) -> np.ndarray | None:
    return keypoint_sigmas(images) if kind.iou_type == "keypoints" else None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Overlaps:
    """Overlaps of a class's detections and objects in one image, D and G of them.

    Attributes:
        scores: float64 [D], descending.
        areas: float64 [D], of the detections.
        overlaps: float64 [D, G].
        object_areas: float64 [G].
        is_crowd: bool [G].
        ignored: bool [G], objects that do not count: crowds, and for keypoints those without a labelled one.
    """

    scores: np.ndarray
    areas: np.ndarray
    overlaps: np.ndarray
    object_areas: np.ndarray
    is_crowd: np.ndarray
    ignored: np.ndarray


def find_overlaps(
    images: Sequence[EvaluatedImage], class_names: Mapping[int, str], kind: Kind = BOXES
) -> dict[tuple[int, int], Overlaps]:
    """Return (place of the image, class in [0, C)) -> overlaps, for those with detections or objects.

    Arguments and errors are those of `evaluate_coco`.
    """
    truth, found = coco_dictionaries(images, class_names, kind.iou_type)
    engine = _evaluated(truth, found, class_names, kind, kpt_oks_sigmas=_sigmas(images, kind))
    by_place: dict[Any, tuple[list[Any], list[Any]]] = collections.defaultdict(lambda: ([], []))
    for which, data in enumerate((truth, found)):
        for annotation in data["annotations"]:
            by_place[annotation["image_id"], annotation["category_id"]][which].append(annotation)
    places = {}
    for (image_id, category_id), (objects, detections) in by_place.items():
        best = sorted(detections, key=lambda a: -a["score"])[: engine.params.maxDets[-1]]
        is_crowd = np.array([bool(a["iscrowd"]) for a in objects], bool)
        places[image_id - 1, category_id - 1] = Overlaps(
            scores=np.array([a["score"] for a in best], np.float64),
            areas=np.array([a["area"] for a in best], np.float64),
            overlaps=np.reshape(engine.ious[image_id, category_id], (len(best), len(objects))),
            object_areas=np.array([a["area"] for a in objects], np.float64),
            is_crowd=is_crowd,
            ignored=is_crowd | np.array([a.get("num_keypoints") == 0 for a in objects], bool),
        )
    return places


def run_engine(
    truth: dict[str, Any],
    found: dict[str, Any],
    class_names: Mapping[int, str],
    kind: Kind,
    *,
    most: Sequence[int] = (),
    **options: Any,
) -> CocoResult:
    """Return precision and recall of two data sets of COCO's tools.

    `most` limits the detections of a class in an image; empty: as the engine does for this shape. `options`
    are the engine's.
    """
    engine = _evaluated(truth, found, class_names, kind, most, **options)
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


def _evaluated(
    truth: dict[str, Any],
    found: dict[str, Any],
    class_names: Mapping[int, str],
    kind: Kind,
    most: Sequence[int] = (),
    **options: Any,
) -> Any:
    """Return the engine of COCO's metrics after it has compared two data sets; see `run_engine`."""
    from faster_coco_eval import COCO, COCOeval_faster

    engine = COCOeval_faster(
        COCO(truth), COCO(found), kind.iou_type, print_function=lambda *_: None, **options
    )
    # For keypoints the engine would leave out classes without an object.
    engine.params.catIds = [c + 1 for c in sorted(class_names)]
    engine.params.maxDets = list(most) or engine.params.maxDets
    engine.evaluate()
    return engine
