"""Ground truth of a COCO JSON file, to evaluate a results file without images.

The lists are those of https://cocodataset.org/#format-data. LVIS's `neg_category_ids`,
`not_exhaustive_category_ids` and `frequency` are read where they are.
"""

import collections
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from detection_core.data.image_header import MAX_PIXELS
from detection_core.data.label_map import FREQUENCIES, LVIS_FREQUENCIES, LabelMap, LabelMapItem
from detection_core.datasets.annotated_images import LVIS_FIELDS, Polygons, Rejected, RunLengths, checked_text
from detection_core.datasets.json_lists import JsonLists
from detection_core.datasets.masks import has_area, pack_mask
from detection_core.errors import DataError, shorten
from detection_core.evaluation.coco_results import (
    KEYPOINT_NUMBERS,
    check_keypoints,
    check_numbers,
    normalised_boxes,
)
from detection_core.structures import FIRST_CLASS, Instances

_LISTS = ("images", "annotations", "categories")
_ABSENT, _NOT_EXHAUSTIVE = LVIS_FIELDS


class CocoTruth:
    """Images, objects and classes of a COCO JSON file.

    Attributes:
        path: of the file.
        classes: `id` of each category to its class in [0, C).
        label_map: the classes. If the smallest id is 0, ids in the label map are one higher.
    """

    def __init__(self, path: str) -> None:
        """Read the file; DataError names the first missing list, or the first entry that lacks a field."""
        self.path = path
        self._images: dict[int, dict[str, Any]] = {}
        self._objects: dict[int, list[dict[str, Any]]] = collections.defaultdict(list)
        lists = JsonLists(path, _LISTS)
        found: dict[str, list[Any]] = collections.defaultdict(list)
        for name, entries in lists:
            found[name] += entries
        for name in _LISTS:
            if name not in lists.found:
                raise DataError(f"expected a COCO JSON object with a list {name!r}, found none", where=path)
        for number, image in enumerate(found["images"]):
            where = f"{path}, image {number}"
            self._check(image, {"id": 0, "height": 1, "width": 1}, where)
            if image["height"] * image["width"] > MAX_PIXELS:
                size = shorten([image["height"], image["width"]])
                raise DataError(
                    f"expected at most {MAX_PIXELS} pixels, found {size} as height and width", where=where
                )
            for name in LVIS_FIELDS:
                check_numbers(image.get(name) or [], f"{name} as a list of ids", where)
            self._images[image["id"]] = image
        offset = int(0 in (entry.get("id") for entry in found["categories"] if isinstance(entry, dict)))
        self.label_map = LabelMap(
            items=tuple(self._item(entry, offset, n) for n, entry in enumerate(found["categories"]))
        )
        self.classes = {c + FIRST_CLASS - offset: c for c in self.label_map.classes}
        self._numbers = 0
        for annotation in found["annotations"]:
            self._add(annotation)

    def __len__(self) -> int:
        return len(self._images)

    def __call__(self) -> Iterator[tuple[np.ndarray, Instances]]:
        """Yield an image without pixels, uint8 [H, W, 3], and its objects, by rising image id as pycocotools.

        Raises:
            DataError: for a malformed mask.
        """
        for image_id in sorted(self._images):
            image = self._images[image_id]
            size = image["height"], image["width"]
            yield np.broadcast_to(np.uint8(0), (*size, 3)), self._instances(image, *size)

    def _instances(self, image: dict[str, Any], height: int, width: int) -> Instances:
        objects = self._objects[image["id"]]
        xywh = np.array([entry["bbox"] for entry in objects], np.float64).reshape(-1, 4)
        masks: np.ndarray = np.empty(len(objects), object)
        masks[:] = [self._mask(entry, height, width) for entry in objects]
        return Instances(
            source_id=str(image["id"]),
            height=height,
            width=width,
            boxes=normalised_boxes(xywh, height, width),
            classes=np.array([self.classes[entry["category_id"]] for entry in objects], np.int32),
            is_crowd=np.array([bool(entry.get("iscrowd")) for entry in objects], bool),
            area=np.array([entry.get("area") or 0.0 for entry in objects], np.float64),
            labelled=self._classes_of(image, _ABSENT),
            not_exhaustive=self._classes_of(image, _NOT_EXHAUSTIVE),
            masks=masks,
            keypoints=self._keypoints(objects) / [height, width],
            xywh=xywh,
        )

    def _classes_of(self, image: dict[str, Any], name: str) -> np.ndarray:
        ids = image.get(name) or ()
        return np.array([self.classes[id_] for id_ in ids if id_ in self.classes], np.int32)

    def _mask(self, entry: dict[str, Any], height: int, width: int) -> bytes:
        given = entry.get("segmentation")
        if given is None:
            return b""
        try:
            if isinstance(given, list):
                mask: Polygons | RunLengths = Polygons(given)
            else:
                mask = RunLengths(given["size"][0], given["size"][1], given["counts"])
            return pack_mask(
                mask if has_area(mask) else RunLengths(height, width, [height * width]), height, width
            )
        except (KeyError, TypeError, ValueError, OverflowError) as e:
            raise DataError(
                f"expected segmentation as polygons or the RLE of an image of {width}x{height} pixels, found"
                f" {shorten(given)}: {e}; correct the file",
                where=self._where(entry),
            ) from e

    def _keypoints(self, objects: Iterable[dict[str, Any]]) -> np.ndarray:
        """Return float64 [N, K, 2], (y, x) in pixels; NaN for a keypoint that is not labelled."""
        rows = [entry.get("keypoints") or [0.0] * self._numbers for entry in objects]
        shape = len(rows), self._numbers // KEYPOINT_NUMBERS, KEYPOINT_NUMBERS
        points = np.array(rows, np.float64).reshape(shape)
        return np.where(points[:, :, 2:] > 0, points[:, :, 1::-1], np.nan)

    def _add(self, annotation: Any) -> None:
        self._check(annotation, {"image_id": 0, "category_id": 0}, self._where(annotation))
        for name, known in (("image_id", self._images), ("category_id", self.classes)):
            if annotation[name] not in known:
                raise DataError(
                    f"expected the id of a listed {name.removesuffix('_id')} as {name}, found"
                    f" {shorten(annotation[name])}; correct the file",
                    where=self._where(annotation),
                )
        check_numbers(annotation.get("bbox"), "bbox as 4 finite numbers", self._where(annotation), count=4)
        check_numbers([annotation.get("area") or 0], "area as a number", self._where(annotation))
        points = annotation.get("keypoints") or []
        check_keypoints(points, self._where(annotation))
        self._numbers = self._numbers or len(points)
        if len(points) not in (0, self._numbers):
            raise DataError(
                f"expected {self._numbers} numbers as keypoints, as other objects have, found {len(points)};"
                " correct the file",
                where=self._where(annotation),
            )
        self._objects[annotation["image_id"]].append(annotation)

    def _where(self, annotation: Any) -> str:
        id_ = annotation.get("id") if isinstance(annotation, dict) else None
        return f"{self.path}, annotation {shorten(id_)}"

    def _item(self, entry: Any, offset: int, number: int) -> LabelMapItem:
        where = f"{self.path}, category {number}"
        self._check(entry, {"id": 0}, where)
        try:
            name = checked_text(entry.get("name"), "name")
            given = entry.get("frequency")
            known = LVIS_FREQUENCIES
            frequency = FREQUENCIES[0] if given is None else known[checked_text(given, "frequency")]
        except (Rejected, KeyError) as e:
            raise DataError(
                f"expected a category with id, name and a known frequency, found {shorten(entry)}",
                where=where,
            ) from e
        return LabelMapItem(id=entry["id"] + offset, name=name, frequency=frequency)

    def _check(self, entry: Any, least: dict[str, int], where: str) -> None:
        """Refuse an entry without whole numbers of at least these values."""
        for name, low in least.items():
            value = entry.get(name) if isinstance(entry, dict) else None
            if type(value) is not int or value < low:
                text = f"expected {name} as a whole number of at least {low}, found {shorten(value)}"
                raise DataError(f"{text}; correct the file", where=where)
