"""COCO results JSON: the detections file that pycocotools' `loadRes` and other COCO tools read.

A list of detections with `image_id`, `category_id` and `score`. Each has at least one of these: `bbox` [x, y,
width, height] in pixels, `segmentation` (RLE of the whole image), `keypoints` [x, y, v, ...] in pixels. See
https://cocodataset.org/#format-results. A `category_id` is an id of the ground truth's classes.
"""

import collections
import itertools
import json
import posixpath
from collections.abc import Container, Iterable, Mapping
from typing import Any

import numpy as np

from detection_core.config.metric_names import COCO_SET, KEYPOINT_SET
from detection_core.datasets.annotated_images import RunLengths
from detection_core.datasets.json_lists import OUTERMOST, JsonLists
from detection_core.datasets.layouts import longest_tails
from detection_core.datasets.masks import pack_mask
from detection_core.errors import DataError, shorten
from detection_core.evaluation.coco_format import detected_objects
from detection_core.ops.mask_runs import mask_boxes
from detection_core.storage import files
from detection_core.structures import Instances

COCO_RESULTS = "coco_results.json"
"""File of `detflow predict` and `detflow evaluate`."""

KEYPOINT_NUMBERS = 3
"""Numbers of a keypoint: x, y and visibility or score."""
_BOX_SIDES = 4
_LARGEST = float(np.finfo(np.float32).max)


def write_coco_results(path: str, detections: Iterable[tuple[int | str, Instances]]) -> None:
    """Write COCO results JSON of image ids and detections, with the height and width of the image."""
    entries = (entry for image_id, found in detections for entry in coco_entries(found, image_id))
    with files.atomic_file(path) as file:
        before = "["
        for entry in entries:
            file.write(f"{before}{json.dumps(entry, allow_nan=False)}".encode())
            before = ", "
        file.write(f"{before.removesuffix(', ')}]".encode())


def coco_entries(found: Instances, image_id: int | str) -> list[dict[str, Any]]:
    """Return the entries of an image's detections, with its height and width, in COCO results JSON."""
    kinds = ["bbox"] + ["segm"] * found.has_masks + ["keypoints"] * (found.keypoints.shape[1] > 0)
    entries = [
        dict(itertools.chain.from_iterable(map(dict.items, parts)))
        for parts in zip(*(detected_objects(found, found, image_id, kind) for kind in kinds), strict=True)
    ]
    written = ("image_id", "category_id", "bbox", "score", "segmentation", "keypoints")
    return [{name: entry[name] for name in written if name in entry} for entry in entries]


def metric_sets_of(path: str) -> tuple[tuple[str, ...], int]:
    """Return the metric sets that a results file has values for, and its keypoints per detection.

    As in pycocotools, the first entry decides.

    Raises:
        DataError: if it is no JSON list.
    """
    entry = next((entries[0] for _, entries in JsonLists(path, [OUTERMOST]) if entries), None)
    entry = entry if isinstance(entry, dict) else {}
    sets = [name for field, name in _SETS.items() if field in entry]
    points = entry.get("keypoints")
    return tuple(sets) or (COCO_SET,), len(points) // KEYPOINT_NUMBERS if isinstance(points, list) else 0


_SETS = {"bbox": COCO_SET, "segmentation": "coco_mask_metrics", "keypoints": KEYPOINT_SET}


class CocoResults:
    """Detections of the COCO results file `path`, evaluated like a detector."""

    def __init__(self, path: str, classes: Mapping[int, int]) -> None:
        """Read the file; `classes` maps each `category_id` of the ground truth to its class in [0, C).

        Raises:
            DataError: if it is not a JSON list; for a malformed entry, names the first.
        """
        self.path = path
        self._classes = classes
        self._entries: dict[str, list[tuple[int, dict[str, Any]]]] = collections.defaultdict(list)
        self._seen: set[str] = set()
        lists = JsonLists(path, [OUTERMOST])
        for number, entry in enumerate(entry for _, entries in lists for entry in entries):
            _check_entry(entry, classes, f"{path}, entry {number}")
            self._entries[str(entry["image_id"])].append((number, entry))
        if OUTERMOST not in lists.found:
            raise DataError("expected COCO results as a JSON list, found another value", where=path)

    def __call__(self, image: np.ndarray, source_id: str = "") -> Instances:
        """Return the detections of an image, as `Runner` does; its id is compared with `image_id` as text.

        Raises:
            DataError: for a mask of another size, or a number of keypoints that differs from the first entry.
        """
        self._seen.add(source_id)
        return self.instances(source_id, *image.shape[:2])

    def instances(self, image_id: str, height: int, width: int) -> Instances:
        """Return the detections of an image by its size in pixels, best first; see `__call__`.

        As in pycocotools, a missing box is that around the mask or the keypoints.
        """
        numbered = sorted(self._entries.get(image_id, ()), key=lambda item: -item[1]["score"])
        entries = [entry for _, entry in numbered]
        masks: np.ndarray = np.empty(len(entries), object)
        masks[:] = [self._mask(number, entry, height, width) for number, entry in numbered]
        rows = zip(entries, masks, strict=True)
        boxes = [e["bbox"] if "bbox" in e else _box(e, mask, height, width) for e, mask in rows]
        xywh = np.array(boxes, np.float64).reshape(-1, _BOX_SIDES)
        return Instances(
            source_id=image_id,
            height=height,
            width=width,
            boxes=normalised_boxes(xywh, height, width),
            classes=np.array([self._classes[entry["category_id"]] for entry in entries], np.int32),
            scores=np.array([entry["score"] for entry in entries], np.float64),
            masks=masks,
            keypoints=self._keypoints(numbered) / [height, width],
            xywh=xywh,
        )

    def check_all_seen(self) -> None:
        """Refuse detections of images that were not evaluated; DataError names the first of them."""
        unknown = next((image_id for image_id in self._entries if image_id not in self._seen), None)
        if unknown is not None:
            number, _ = self._entries[unknown][0]
            raise DataError(
                f"expected the id of an evaluated image as image_id, found {shorten(unknown)}; evaluate the"
                " split that the results were made of",
                where=f"{self.path}, entry {number}",
            )

    def _mask(self, number: int, entry: Mapping[str, Any], height: int, width: int) -> bytes:
        if "segmentation" not in entry:
            return b""
        try:
            mask = entry["segmentation"]
            rows, columns = mask["size"]
            return pack_mask(RunLengths(rows, columns, mask["counts"]), height, width)
        except (KeyError, TypeError, ValueError, OverflowError) as e:
            raise DataError(
                f"expected segmentation as the RLE of an image of {width}x{height} pixels, found"
                f" {shorten(entry['segmentation'])}: {e}; write it with pycocotools.mask.encode",
                where=f"{self.path}, entry {number}",
            ) from e

    def _keypoints(self, numbered: list[tuple[int, dict[str, Any]]]) -> np.ndarray:
        """Return float64 [N, K, 2], (y, x) in pixels; NaN for a keypoint written as 0, 0, 0."""
        values = [entry.get("keypoints", ()) for _, entry in numbered]
        for (number, _), row in zip(numbered, values, strict=True):
            if len(row) != len(values[0]):
                raise DataError(
                    f"expected as many keypoints in every detection of an image, found {len(values[0])} and"
                    f" {len(row)} numbers; write 0, 0, 0 for a missing keypoint",
                    where=f"{self.path}, entry {number}",
                )
        if not any(values):
            return np.zeros((len(values), 0, 2))
        points = np.array(values, np.float64).reshape(len(values), -1, KEYPOINT_NUMBERS)
        return np.where((points == 0).all(axis=2, keepdims=True), np.nan, points[:, :, 1::-1])


def _box(entry: Mapping[str, Any], mask: bytes, height: int, width: int) -> list[float]:
    if mask:
        return mask_boxes([mask], height, width)[0].tolist()
    points = np.array(entry["keypoints"], np.float64).reshape(-1, KEYPOINT_NUMBERS)[:, :2]
    return [*points.min(axis=0).tolist(), *np.ptp(points, axis=0).tolist()]


def normalised_boxes(xywh: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return boxes, float32 [N, 4] as in `Instances`, of COCO's x, y, width and height in pixels."""
    corners = np.concatenate([xywh[:, 1::-1], xywh[:, 1::-1] + xywh[:, :1:-1]], axis=1)
    return (corners / ([height, width] * 2)).astype(np.float32)


def _check_entry(entry: object, classes: Container[int], where: str) -> None:
    shaped = isinstance(entry, dict) and any(entry.get(name) for name in _SETS)
    if not isinstance(entry, dict) or not shaped or not {"image_id", "category_id", "score"} <= entry.keys():
        raise DataError(
            "expected image_id, category_id, score and one of bbox, segmentation and keypoints, found"
            f" {shorten(entry)}; write the file as https://cocodataset.org/#format-results says",
            where=where,
        )
    if type(entry["image_id"]) not in (int, str):
        raise DataError(f"expected image_id as a number, found {shorten(entry['image_id'])}", where=where)
    if type(entry["category_id"]) is not int or entry["category_id"] not in classes:
        raise DataError(
            f"expected category_id as an id of the ground truth's classes, found"
            f" {shorten(entry['category_id'])}; use the ids that the detector was trained with",
            where=where,
        )
    if "bbox" in entry:
        check_numbers(entry["bbox"], "bbox as 4 finite numbers", where, count=_BOX_SIDES)
    check_numbers([entry["score"]], "score as a finite number", where)
    check_keypoints(entry.get("keypoints", []), where)


def check_keypoints(points: Any, where: str) -> None:
    """Refuse keypoints that are not a list of x, y and v of each. Raises DataError naming what was found."""
    check_numbers(points, "keypoints as x, y and v of each", where)
    if len(points) % KEYPOINT_NUMBERS:
        raise DataError(f"expected keypoints as x, y and v of each, found {len(points)} numbers", where=where)


def check_numbers(values: object, what: str, where: str, count: int | None = None) -> None:
    """Refuse all but a list of finite numbers (DataError); `what` describes it, `count` is its length."""
    is_list = isinstance(values, list) and (count is None or len(values) == count)
    numbers: list[Any] = values if isinstance(values, list) and is_list else [None]
    # A larger number would be infinite in float32; the comparison is also false for NaN.
    if not all(type(n) in (int, float) and -_LARGEST <= n <= _LARGEST for n in numbers):
        raise DataError(f"expected {what}, found {shorten(values)}; correct the file", where=where)


class ImageIds:
    """Image ids by file name, from the COCO JSON of the ground truth."""

    def __init__(self, path: str) -> None:
        """Read the list `images` of a COCO JSON file; DataError without it, or without an id or file name."""
        self._path = path
        self._ids: dict[str, int] = {}
        self._names: dict[str, list[str]] = collections.defaultdict(list)
        lists = JsonLists(path, ["images"])
        for _, entries in lists:
            for entry in entries:
                whole = isinstance(entry, dict) and type(entry.get("id")) is int and entry.get("file_name")
                if not whole:
                    raise DataError(
                        f"expected an image with id and file_name, found {shorten(entry)}", where=path
                    )
                name = str(entry["file_name"])
                self._ids[name] = entry["id"]
                self._names[posixpath.basename(name)].append(name)
        if not lists.found:
            raise DataError("expected a COCO JSON object with a list 'images', found none", where=path)

    def find(self, image: str) -> int:
        """Return the id of an image file; DataError if no image, or several, have this name."""
        names = longest_tails(image, self._names.get(posixpath.basename(image), ()))
        if len(names) != 1:
            found = ", ".join(names[:4]) or "none"
            raise DataError(f"expected one image of this name in {self._path}, found {found}", where=image)
        return self._ids[names[0]]
