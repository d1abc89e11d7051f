"""Writes annotated images as COCO JSON, https://cocodataset.org/#format-data.

Fields that COCO does not have go to `attributes` of an annotation, as in CVAT, or to `detflow`.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import math
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from detection_core.data.image_header import MAX_FILE_BYTES, ImageFault
from detection_core.data.label_map import LabelMap
from detection_core.data.pixels import open_picture
from detection_core.datasets.annotated_images import (
    AnnotatedImage,
    AnnotatedObject,
    Mask,
    MaskFile,
    Polygons,
    Rejected,
    RunLengths,
)
from detection_core.datasets.shapes import place_mask
from detection_core.errors import is_exhausted
from detection_core.storage import files

BESIDE = {
    "attributes": ("difficult", "truncated", "occluded"),
    "detflow": ("pose", "group_of", "depiction", "confidence", "weight"),
}
"""Key of an annotation to the object's fields in it, if the source has them."""

_KEPT_IN_MEMORY = 1 << 24


class CocoWriter:
    """Writes one COCO JSON file image by image, without keeping the images in memory."""

    def __init__(
        self,
        out: IO[bytes],
        label_map: LabelMap,
        keypoint_names: Mapping[str, Sequence[str]],
        annotations: IO[bytes],
    ) -> None:
        self._out, self._annotations = out, annotations
        self._ids = label_map.ids_by_text
        self.images = self.objects = 0
        categories = [
            {"id": item.id, "name": item.name, "supercategory": ""}
            | (
                {"keypoints": list(keypoint_names[item.name]), "skeleton": []}
                if item.name in keypoint_names
                else {}
            )
            for item in label_map.items
        ]
        out.write(
            b'{"info": {}, "licenses": [],\n"categories": '
            + json.dumps(categories).encode()
            + b',\n"images": ['
        )

    def add(self, image: AnnotatedImage, file_name: str, size: tuple[int, int]) -> None:
        """Write an image with its objects; `size` is (width, height) in pixels.

        Raises:
            Rejected: if JSON cannot hold a value or a mask cannot be read; then nothing is written.
        """
        number = self.images + 1
        entry: dict[str, Any] = {"id": number, "file_name": file_name, "width": size[0], "height": size[1]}
        if image.labels:
            labels = [
                {"category_id": self._ids[label.name], "confidence": label.confidence}
                for label in image.labels
                if label.name in self._ids
            ]
            entry["detflow"] = {"labels": labels}
        objects = [
            _annotation(item, self.objects + at, number, self._ids[item.name], size)
            for at, item in enumerate(image.objects, start=1)
        ]
        try:
            texts = [json.dumps(part, allow_nan=False).encode() for part in (entry, *objects)]
        except ValueError as e:
            raise Rejected("box_not_finite", f"expected finite numbers: {e}") from e
        self._out.write((b",\n" if self.images else b"\n") + texts[0])
        for at, text in enumerate(texts[1:]):
            self._annotations.write((b",\n" if self.objects + at else b"\n") + text)
        self.images, self.objects = number, self.objects + len(objects)

    def end(self) -> None:
        """Write the rest of the file after the images."""
        self._out.write(b'],\n"annotations": [')
        self._annotations.seek(0)
        shutil.copyfileobj(self._annotations, self._out, 1 << 20)
        self._out.write(b"]}\n")


@contextlib.contextmanager
def open_coco(
    path: str, label_map: LabelMap, keypoint_names: Mapping[str, Sequence[str]]
) -> Iterator[CocoWriter]:
    """Yield the writer of a COCO JSON file. The file appears if the block ends without an error."""
    with files.atomic_file(path) as out, tempfile.SpooledTemporaryFile(_KEPT_IN_MEMORY) as annotations:
        writer = CocoWriter(out, label_map, keypoint_names, annotations)
        yield writer
        writer.end()


def _annotation(
    item: AnnotatedObject, number: int, image: int, category: int, size: tuple[int, int]
) -> dict[str, Any]:
    xmin, ymin, xmax, ymax = item.box
    width, height = xmax - xmin, ymax - ymin
    entry: dict[str, Any] = {
        "id": number,
        "image_id": image,
        "category_id": category,
        "bbox": [xmin, ymin, width, height],
        "area": item.area or width * height,
        "iscrowd": item.crowd,
    }
    if not all(map(math.isfinite, (*item.box, item.area))):
        raise Rejected("box_not_finite", f"{item.label}: expected finite numbers, found {item.box}")
    if item.mask is not None:
        entry["segmentation"] = _segmentation(item.mask, size)
    if item.keypoints is not None:
        entry["keypoints"] = list(itertools.chain(*item.keypoints))
        entry["num_keypoints"] = sum(1 for *_, seen in item.keypoints if seen)
    for key, names in BESIDE.items():
        values = {name: getattr(item, name) for name in names if getattr(item, name) is not None}
        entry |= {key: values} if values else {}
    return entry


def _segmentation(mask: Mask, size: tuple[int, int]) -> Any:
    if isinstance(mask, Polygons):
        return [list(ring) for ring in mask.rings]
    if isinstance(mask, MaskFile):
        mask = _read_mask(mask.path, size)
    counts = mask.counts if isinstance(mask.counts, str) else list(mask.counts)
    return {"size": [mask.height, mask.width], "counts": counts}


def _read_mask(path: str, size: tuple[int, int]) -> RunLengths:
    import numpy as np

    try:
        data = files.read_regular(path, MAX_FILE_BYTES)
        with open_picture(io.BytesIO(data)) as picture:
            pixels = np.asarray(picture.convert("L").resize(size, 0)) > 0
    except (OSError, ImageFault) as e:
        if is_exhausted(e):
            raise
        raise Rejected("malformed_mask", f"expected a picture of a mask at {path!r:.120}: {e}") from e
    return place_mask(pixels, 0, 0, *size)
