"""COCO results JSON: the detections file that pycocotools' `loadRes` and other COCO tools read.

A list of detections with `image_id`, `category_id`, `score` and `bbox` [x, y, width, height] in pixels.
`segmentation` (RLE of the whole image) and `keypoints` [x, y, v, ...] in pixels are optional; see
https://cocodataset.org/#format-results. A `category_id` is the id in the label map, from 1.
"""

from __future__ import annotations

import collections
import itertools
import json
import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from detection_core.datasets.annotated_images import RunLengths
from detection_core.datasets.json_lists import OUTERMOST, JsonLists
from detection_core.datasets.layouts import longest_tails
from detection_core.datasets.masks import pack_run_lengths
from detection_core.errors import DataError, shorten
from detection_core.evaluation.coco_metrics import detected_objects
from detection_core.storage import files
from detection_core.structures import FIRST_CLASS, Instances

_BOX_SIDES, _KEYPOINT_NUMBERS = 4, 3
_LARGEST = float(np.finfo(np.float32).max)


def write_coco_results(path: str, detections: Iterable[tuple[int | str, Instances]]) -> None:
    """Write detections as COCO results JSON.

    Args:
        path: of the file.
        detections: id of each image in the ground truth, and its detections with the image's height and
            width.
    """
    entries = [entry for image_id, found in detections for entry in _entries(found, image_id)]
    files.write_text(path, json.dumps(entries, allow_nan=False))


def _entries(found: Instances, image_id: int | str) -> list[dict[str, Any]]:
    kinds = ["bbox"] + ["segm"] * found.has_masks + ["keypoints"] * (found.keypoints.shape[1] > 0)
    entries = [
        dict(itertools.chain.from_iterable(map(dict.items, parts)))
        for parts in zip(*(detected_objects(found, found, image_id, kind) for kind in kinds), strict=True)
    ]
    written = ("image_id", "category_id", "bbox", "score", "segmentation", "keypoints")
    return [{name: entry[name] for name in written if name in entry} for entry in entries]


class CocoResults:
    """Detections of a COCO results file, evaluated like a detector.

    Attributes:
        path: of the file.
    """

    def __init__(self, path: str) -> None:
        """Read the file and check its entries.

        Raises:
            DataError: if it is not a JSON list; for a malformed entry, names the first.
        """
        self.path = path
        self._entries: dict[str, list[tuple[int, dict[str, Any]]]] = collections.defaultdict(list)
        self._seen: set[str] = set()
        lists = JsonLists(path, [OUTERMOST])
        for number, entry in enumerate(entry for _, entries in lists for entry in entries):
            _check_entry(entry, f"{path}, entry {number}")
            self._entries[str(entry["image_id"])].append((number, entry))
        if OUTERMOST not in lists.found:
            raise DataError("expected COCO results as a JSON list, found another value", where=path)

    def __call__(self, image: np.ndarray, source_id: str = "") -> Instances:
        """Return the detections of an image, as `Runner` does.

        Args:
            image: uint8 [H, W, 3]; only its size is used.
            source_id: of the image; compared with `image_id` as text.

        Raises:
            DataError: for a mask of another size, or a number of keypoints that differs from the first entry.
        """
        self._seen.add(source_id)
        return self.instances(source_id, *image.shape[:2])

    def instances(self, image_id: str, height: int, width: int) -> Instances:
        """Return the detections of an image by its size in pixels, best first; see `__call__`."""
        numbered = sorted(self._entries.get(image_id, ()), key=lambda item: -item[1]["score"])
        entries = [entry for _, entry in numbered]
        size = np.array([height, width] * 2, np.float64)
        xywh = np.array([entry["bbox"] for entry in entries], np.float64).reshape(-1, _BOX_SIDES)
        corners = np.concatenate([xywh[:, 1::-1], xywh[:, 1::-1] + xywh[:, :1:-1]], axis=1)
        masks: np.ndarray = np.empty(len(entries), object)
        masks[:] = [self._mask(number, entry, height, width) for number, entry in numbered]
        return Instances(
            source_id=image_id,
            height=height,
            width=width,
            boxes=(corners / size).astype(np.float32),
            classes=np.array([entry["category_id"] - FIRST_CLASS for entry in entries], np.int32),
            scores=np.array([entry["score"] for entry in entries], np.float32),
            masks=masks,
            keypoints=self._keypoints(numbered) / size[:2].astype(np.float32),
        )

    def check_all_seen(self) -> None:
        """Refuse detections of images that were not evaluated.

        Raises:
            DataError: names the first of these images.
        """
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
            return pack_run_lengths(RunLengths(rows, columns, mask["counts"]), height, width)
        except (KeyError, TypeError, ValueError, OverflowError) as e:
            raise DataError(
                f"expected segmentation as the RLE of an image of {width}x{height} pixels, found"
                f" {shorten(entry['segmentation'])}: {e}; write it with pycocotools.mask.encode",
                where=f"{self.path}, entry {number}",
            ) from e

    def _keypoints(self, numbered: list[tuple[int, dict[str, Any]]]) -> np.ndarray:
        """Return float32 [N, K, 2], (y, x) in pixels; NaN for a keypoint written as 0, 0, 0."""
        values = [entry.get("keypoints", ()) for _, entry in numbered]
        for (number, _), row in zip(numbered, values, strict=True):
            if len(row) != len(values[0]):
                raise DataError(
                    f"expected as many keypoints in every detection of an image, found {len(values[0])} and"
                    f" {len(row)} numbers; write 0, 0, 0 for a missing keypoint",
                    where=f"{self.path}, entry {number}",
                )
        points = (
            np.array(values, np.float32).reshape(len(values), -1, _KEYPOINT_NUMBERS) if any(values) else None
        )
        if points is None:
            return np.zeros((len(values), 0, 2), np.float32)
        return np.where((points == 0).all(axis=2, keepdims=True), np.float32(np.nan), points[:, :, 1::-1])


def _check_entry(entry: object, where: str) -> None:
    if not isinstance(entry, dict) or not {"image_id", "category_id", "bbox", "score"} <= entry.keys():
        raise DataError(
            f"expected image_id, category_id, bbox and score, found {shorten(entry)}; write the file as"
            " https://cocodataset.org/#format-results says",
            where=where,
        )
    if type(entry["image_id"]) not in (int, str):
        raise DataError(f"expected image_id as a number, found {shorten(entry['image_id'])}", where=where)
    if type(entry["category_id"]) is not int or entry["category_id"] < FIRST_CLASS:
        raise DataError(
            f"expected category_id as an id of the label map, found {shorten(entry['category_id'])}",
            where=where,
        )
    _check_numbers(entry["bbox"], "bbox as 4 finite numbers", where, count=_BOX_SIDES)
    _check_numbers([entry["score"]], "score as a finite number", where)
    points = entry.get("keypoints", [])
    _check_numbers(points, "keypoints as x, y and v of each", where)
    if len(points) % _KEYPOINT_NUMBERS:
        raise DataError(f"expected keypoints as x, y and v of each, found {len(points)} numbers", where=where)


def _check_numbers(values: object, what: str, where: str, count: int | None = None) -> None:
    is_list = isinstance(values, list) and (count is None or len(values) == count)
    numbers: list[Any] = values if isinstance(values, list) and is_list else [None]
    # A larger number would be infinite in float32; the comparison is also false for NaN.
    if not all(type(n) in (int, float) and -_LARGEST <= n <= _LARGEST for n in numbers):
        raise DataError(f"expected {what}, found {shorten(values)}; correct the file", where=where)


class ImageIds:
    """Image ids by file name, from the COCO JSON of the ground truth."""

    def __init__(self, path: str) -> None:
        """Read the list `images` of a COCO JSON file.

        Raises:
            DataError: if the list is missing, or an image lacks its id or file name.
        """
        self._path = path
        self._ids: dict[str, int] = {}
        self._names: dict[str, list[str]] = collections.defaultdict(list)
        lists = JsonLists(path, ["images"])
        for _, entries in lists:
            for entry in entries:
                if (
                    not isinstance(entry, dict)
                    or type(entry.get("id")) is not int
                    or not entry.get("file_name")
                ):
                    raise DataError(
                        f"expected an image with id and file_name, found {shorten(entry)}", where=path
                    )
                name = str(entry["file_name"])
                self._ids[name] = entry["id"]
                self._names[posixpath.basename(name)].append(name)
        if not lists.found:
            raise DataError("expected a COCO JSON object with a list 'images', found none", where=path)

    def find(self, image: str) -> int:
        """Return the id of an image file.

        Raises:
            DataError: if no image of the list has this name, or several have it.
        """
        names = longest_tails(image, self._names.get(posixpath.basename(image), ()))
        if len(names) != 1:
            found = ", ".join(names[:4]) or "none"
            raise DataError(f"expected one image of this name in {self._path}, found {found}", where=image)
        return self._ids[names[0]]
