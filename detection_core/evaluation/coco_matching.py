"""Match detections with objects as COCO does, many images at a time, in tables that can be joined.

Rules: the COCO detection evaluation (Lin et al., Microsoft COCO, ECCV 2014,
https://cocodataset.org/#detection-eval). By falling score, each detection takes the free object of its class
that it overlaps most, and rather one that counts than one that does not; of equal ones the last.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from detection_core.evaluation.coco_format import Flat, check_keypoints, check_shapes, flatten, join
from detection_core.evaluation.results import EvaluatedImage, box_areas, box_iou, to_px
from detection_core.ops.mask_runs import mask_iou
from detection_core.structures import Instances

AREA_RANGES = {
    "all": (0.0, 1e5**2),
    "small": (0.0, 32.0**2),
    "medium": (32.0**2, 96.0**2),
    "large": (96.0**2, 1e5**2),
}
IOU_THRESHOLDS = np.linspace(0.5, 0.95, 10)
_PAIRS_AT_ONCE = 100_000
"""Upper bound of the pairs of detections and objects that are compared at once, unless one image has more."""
_CLASSES = np.int64(1 << 32)  # more than there can be
_PERSON_SIGMAS = np.array([26, 25, 25, 35, 35, 79, 79, 72, 72, 62, 62, 107, 107, 87, 87, 89, 89]) / 1000
_SIGMA = 0.05
"""Tolerance of keypoints other than COCO's persons', as in the Object Detection API."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """How detections and objects are compared.

    Attributes:
        iou_type: COCO's name of the shape: bbox, segm or keypoints.
        areas: names of the area ranges, A of them.
        most: limits of the detections of a class in an image, rising; the last one is that of the matches.
        exhaustive: whether false positives of an image's `not_exhaustive` classes count as others do.
    """

    iou_type: str
    areas: tuple[str, ...] = tuple(AREA_RANGES)
    most: tuple[int, ...] = (1, 10, 100)
    exhaustive: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class MatchTable:
    """Detections of N rows and objects of G rows, each with its image and class, in the images' order.

    Attributes:
        image: int64 [N], place of the image.
        label: int32 [N], in [0, C).
        rank: int32 [N], among the image's detections of the class, by falling score.
        scores: float64 [N].
        hits: uint16 [N, A], whether it found an object that counts: bit t for the IoU threshold t.
        ignored: uint16 [N, A], whether it does not count: in a crowd, or of another size.
        object_image: int64 [G].
        object_label: int32 [G].
        counts: bool [G, A], whether the object counts in an area range.
    """

    image: np.ndarray
    label: np.ndarray
    rank: np.ndarray
    scores: np.ndarray
    hits: np.ndarray
    ignored: np.ndarray
    object_image: np.ndarray
    object_label: np.ndarray
    counts: np.ndarray

    def take(self, rows: np.ndarray | slice, objects: np.ndarray | slice) -> "MatchTable":
        """Return some rows of detections and of objects."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return MatchTable(**{n: v[objects if n in _OF_OBJECTS else rows] for n, v in fields.items()})

    def of_images(self, places: np.ndarray) -> "MatchTable":
        """Return the rows of some images, by rising place, which are counted from 0 then."""
        part = self.take(np.isin(self.image, places), np.isin(self.object_image, places))
        image, objects = (np.asarray(np.searchsorted(places, p)) for p in (part.image, part.object_image))
        return dataclasses.replace(part, image=image, object_image=objects)

    def shifted(self, first: int) -> "MatchTable":
        """Return the same rows, with images counted from `first` on instead of 0."""
        return dataclasses.replace(self, image=self.image + first, object_image=self.object_image + first)

    def by_class(self) -> Callable[[int], "MatchTable"]:
        """Return a function of a class to its rows: detections by falling score, then image, then rank."""
        order = np.lexsort((-self.scores, self.label))
        objects = np.argsort(self.object_label, kind="stable")
        labels, object_labels = self.label[order], self.object_label[objects]

        def of_class(label: int) -> MatchTable:
            return self.take(order[_run(labels, label)], objects[_run(object_labels, label)])

        return of_class


_OF_OBJECTS = ("object_image", "object_label", "counts")


def unpack(bits: np.ndarray) -> np.ndarray:
    """Return the bits of `MatchTable.hits` or `ignored`, uint16 [N], as bool [T, N]."""
    return (bits & (1 << np.arange(len(IOU_THRESHOLDS), dtype=np.uint16))[:, None]) > 0


def join_tables(tables: Sequence[MatchTable]) -> MatchTable:
    """Join tables of different images; the result does not depend on their order."""

    def joined(name: str) -> np.ndarray:
        return np.concatenate([getattr(table, name) for table in tables])

    rows = np.lexsort((joined("rank"), joined("label"), joined("image")))
    objects = np.argsort(joined("object_image"), kind="stable")
    names = [field.name for field in dataclasses.fields(MatchTable)]
    # One column at a time, so that the memory is twice that of the tables.
    return MatchTable(**{n: joined(n)[objects if n in _OF_OBJECTS else rows] for n in names})


def match_images(
    images: Iterable[EvaluatedImage],
    class_names: Mapping[int, str],
    comparison: Comparison,
    *,
    first: int = 0,
) -> MatchTable:
    """Match the detections and objects of images.

    Args:
        images: each once.
        class_names: class in [0, C) to name; detections and objects of other classes are left out.
        comparison: how to compare. 17 keypoints have the tolerances of COCO's persons.
        first: place of the first image in the split.

    Raises:
        DataError: for an object without the required mask or keypoints.
        ModelError: for a detection without them, or with another number of keypoints.
    """
    classes = np.array(sorted(class_names), np.int32)
    return join_tables([_match(part, classes, comparison, first + start) for start, part in _chunks(images)])


def _chunks(images: Iterable[EvaluatedImage]) -> Iterator[tuple[int, list[EvaluatedImage]]]:
    chunk: list[EvaluatedImage] = []
    start, pairs = 0, 0
    for image in images:
        own = (1 + len(image.truth.classes)) * (1 + len(image.detections.classes))
        if chunk and pairs + own > _PAIRS_AT_ONCE:
            yield start, chunk
            start, pairs, chunk = start + len(chunk), 0, []
        chunk.append(image)
        pairs += own
    yield start, chunk


def _match(
    images: Sequence[EvaluatedImage], classes: np.ndarray, comparison: Comparison, first: int
) -> MatchTable:
    for image in images:
        check_shapes(image, comparison.iou_type)
    if comparison.iou_type == "keypoints":
        check_keypoints(images)
    truth = [image.truth for image in images]
    objects, is_crowd = _objects(truth, classes, comparison.iou_type)
    detections, scores, rank = _detections(images, classes, comparison)
    skipped = is_crowd
    if comparison.iou_type == "keypoints":
        skipped = is_crowd | ~objects.shape[..., 2].any(axis=1)
    counts = ~skipped & ~_outside(objects.area, comparison)
    pairs = _overlapping(_Compared(detections, objects, is_crowd, truth), comparison.iou_type)
    hits, ignored = _assign(pairs, len(rank), counts, is_crowd)
    uncounted = _outside(detections.area, comparison)
    if not comparison.exhaustive:
        keys = (_CLASSES * place + each.not_exhaustive for place, each in enumerate(truth))
        uncounted |= np.isin(_keys(detections), join(keys, np.int64))
    return MatchTable(
        image=detections.image + first,
        label=detections.label,
        rank=rank.astype(np.int32),
        scores=scores,
        hits=_packed(hits),
        ignored=_packed(ignored | (uncounted[:, np.newaxis] & ~hits)),
        object_image=objects.image + first,
        object_label=objects.label,
        counts=counts.T,
    )


def _objects(truth: Sequence[Instances], classes: np.ndarray, iou_type: str) -> tuple[Flat, np.ndarray]:
    """Return the objects of some classes by image and class, and which of them are crowds."""
    objects = flatten(truth, truth, iou_type)
    areas, recorded = objects.area, join((each.area for each in truth), np.float64)
    if iou_type != "segm":
        areas = join((box_areas(to_px(each.boxes, each)) for each in truth), np.float64)
    objects = objects._replace(area=np.where(recorded > 0, recorded, areas))
    kept = np.flatnonzero(np.isin(objects.label, classes))
    kept = kept[np.argsort(_keys(objects)[kept], kind="stable")]
    return objects.take(kept), join((each.is_crowd for each in truth), bool)[kept]


def _detections(
    images: Sequence[EvaluatedImage], classes: np.ndarray, comparison: Comparison
) -> tuple[Flat, np.ndarray, np.ndarray]:
    """Return the best detections of some classes by image, class and falling score, with scores and ranks."""
    found = [image.detections for image in images]
    detections = flatten(found, [image.truth for image in images], comparison.iou_type)
    scores, keys = join((each.scores for each in found), np.float64), _keys(detections)
    kept = np.flatnonzero(np.isin(detections.label, classes))
    kept = kept[np.lexsort((-scores[kept], keys[kept]))]
    rank = _places_in_runs(keys[kept])
    best = rank < comparison.most[-1]
    return detections.take(kept[best]), scores[kept[best]], rank[best]


def _keys(flat: Flat) -> np.ndarray:
    """Return a number for each pair of image and class, int64 [N], in their order."""
    return _CLASSES * flat.image + flat.label


def _outside(areas: np.ndarray, comparison: Comparison) -> np.ndarray:
    """Return whether areas, [N], are outside each range, bool [A, N]."""
    low, high = np.array([AREA_RANGES[name] for name in comparison.areas]).T[..., np.newaxis]
    return (areas < low) | (areas > high)


class _Pairs(NamedTuple):
    """P pairs of a detection and an object of its class, whose overlap reaches the lowest threshold.

    Detections rise; `key` is that of their image and class.
    """

    detection: np.ndarray
    object: np.ndarray
    overlap: np.ndarray
    key: np.ndarray


class _Compared(NamedTuple):
    """Detections, objects, which of these are crowds, and the ground truth of the images."""

    detections: Flat
    objects: Flat
    is_crowd: np.ndarray
    truth: Sequence[Instances]


def _overlapping(compared: _Compared, iou_type: str) -> _Pairs:
    keys, object_keys = _keys(compared.detections), _keys(compared.objects)
    low = np.asarray(np.searchsorted(object_keys, keys))
    number: np.ndarray = np.searchsorted(object_keys, keys, "right") - low
    detection: np.ndarray = np.repeat(np.arange(len(low)), number)
    object_ = np.arange(len(detection)) + np.repeat(low - np.cumsum(number) + number, number)
    overlap = _OVERLAPS[iou_type](compared, detection, object_)
    near = overlap >= IOU_THRESHOLDS[0]
    return _Pairs(detection[near], object_[near], overlap[near], keys[detection[near]])


def _box_overlaps(compared: _Compared, detection: np.ndarray, object_: np.ndarray) -> np.ndarray:
    """Return the IoU of each pair, float64 [P]; for a crowd, the union is the detection alone."""
    found, true = compared.detections.xywh[detection], compared.objects.xywh[object_]
    return box_iou(found, true, compared.is_crowd[object_])


def _mask_overlaps(compared: _Compared, _: np.ndarray, __: np.ndarray) -> np.ndarray:
    """Return the IoU of each pair, as `_box_overlaps`."""
    keys, object_keys = _keys(compared.detections), _keys(compared.objects)
    parts = []
    for key in np.intersect1d(keys, object_keys):
        found, true = _run(keys, key), _run(object_keys, key)
        image = compared.truth[compared.detections.image[found.start]]
        masks = compared.detections.shape[found], compared.objects.shape[true]
        parts.append(mask_iou(*masks, compared.is_crowd[true], image.height, image.width).ravel())
    return join(parts, np.float64)


def _keypoint_overlaps(compared: _Compared, detection: np.ndarray, object_: np.ndarray) -> np.ndarray:
    """Return the object keypoint similarity of each pair, float64 [P].

    Keypoints that are not labelled do not count. An object without a labelled one is compared by the distance
    of the detection's keypoints from its box, grown by its size on each side.
    """
    found, true = compared.detections.shape[detection], compared.objects.shape[object_]
    labelled = true[..., 2] > 0
    sigmas = _PERSON_SIGMAS if true.shape[1] == len(_PERSON_SIGMAS) else np.full(true.shape[1], _SIGMA)
    low, size = np.split(compared.objects.xywh[object_][:, np.newaxis], 2, axis=2)
    beyond = np.maximum(0, low - size - found[..., :2]) + np.maximum(0, found[..., :2] - low - 2 * size)
    unknown = ~labelled.any(axis=1)[:, np.newaxis]
    away = np.where(unknown[..., np.newaxis], beyond, found[..., :2] - true[..., :2])
    area = compared.objects.area[object_][:, np.newaxis] + np.spacing(1)
    counted = labelled | unknown
    error = (away**2).sum(axis=2) / (2 * sigmas) ** 2 / area / 2
    return np.where(counted, np.exp(-error), 0.0).sum(axis=1) / counted.sum(axis=1)


_OVERLAPS: Mapping[str, Callable[[_Compared, np.ndarray, np.ndarray], np.ndarray]] = {
    "bbox": _box_overlaps,
    "segm": _mask_overlaps,
    "keypoints": _keypoint_overlaps,
}
"""IoU type to (what is compared, detections, objects) -> overlap of each pair of detection and object."""


def _assign(
    pairs: _Pairs, detections: int, counts: np.ndarray, is_crowd: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Give objects to detections; return whether each took one that counts, or another, bool [A, T, N].

    Detections of different images or classes do not compete. So a round processes the next detection of each
    image and class at once.
    """
    thresholds = np.minimum(IOU_THRESHOLDS, 1 - 1e-10)[:, np.newaxis]
    size = (len(counts), len(thresholds))
    hits: np.ndarray = np.zeros((*size, detections), bool)
    ignored: np.ndarray = np.zeros((*size, detections), bool)
    free: np.ndarray = np.ones((*size, len(is_crowd)), bool)
    begins = _begins(pairs.detection)
    rounds: np.ndarray = np.repeat(
        _places_in_runs(pairs.key[begins]), np.diff(np.append(begins, len(pairs.key)))
    )
    # Of a detection's pairs, the last possible one is the best.
    order = np.lexsort((pairs.overlap, pairs.detection, rounds))
    for rows in np.split(order, _begins(rounds[order])[1:]) if len(order) else ():
        object_, begins = pairs.object[rows], _begins(pairs.detection[rows])
        possible = (pairs.overlap[rows] >= thresholds) & (free[..., object_] | is_crowd[object_])
        preferred = np.arange(len(rows)) + len(rows) * counts[:, object_]
        best = np.maximum.reduceat(np.where(possible, preferred[:, np.newaxis], -1), begins, axis=2)
        own = pairs.detection[rows][begins]
        hits[..., own] = best >= len(rows)
        ignored[..., own] = (best >= 0) & (best < len(rows))
        area, threshold, which = np.nonzero(best >= 0)
        free[area, threshold, object_[best[area, threshold, which] % len(rows)]] = False
    return hits, ignored


def _packed(flags: np.ndarray) -> np.ndarray:
    """Pack bool [A, T, N] to uint16 [N, A]."""
    bits = flags.astype(np.uint16) << np.arange(flags.shape[1], dtype=np.uint16)[:, np.newaxis]
    return np.bitwise_or.reduce(bits, axis=1).T


def _run(values: np.ndarray, value: int) -> slice:
    """Return where a value is among rising ones."""
    return slice(int(np.searchsorted(values, value)), int(np.searchsorted(values, value + 1)))


def _begins(values: np.ndarray) -> np.ndarray:
    """Return where each run of equal values begins; values are at least 0."""
    return np.flatnonzero(np.diff(values, prepend=-1))


def _places_in_runs(values: np.ndarray) -> np.ndarray:
    """Return the place of each element in its run of equal values."""
    begins = _begins(values)
    return np.arange(len(values)) - np.repeat(begins, np.diff(np.append(begins, len(values))))
