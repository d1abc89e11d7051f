"""Converts a data set of any readable format to COCO JSON, https://cocodataset.org/#format-data.

Fields that COCO does not have go to `attributes` of an annotation, as in CVAT, or to `detflow`.
"""

import contextlib
import dataclasses
import functools
import itertools
import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

from detection_core.artifacts.dataset_card import QUARANTINE
from detection_core.data.image_header import MAX_FILE_BYTES
from detection_core.data.label_map import FREQUENCIES, LabelMap
from detection_core.datasets.annotated_images import (
    LVIS_FIELDS,
    AnnotatedImage,
    AnnotatedObject,
    Annotations,
    Mask,
    MaskFile,
    Polygons,
    Rejected,
    Rejection,
    path_inside,
    rejecting,
)
from detection_core.datasets.card import write_quarantine
from detection_core.datasets.classes import fill_label_map, make_label_map, merge_keypoint_names
from detection_core.datasets.formats.coco import EXTRA_FIELDS
from detection_core.datasets.image_files import shown_size
from detection_core.datasets.layout_search import find_layout
from detection_core.datasets.layouts import Layout, is_by_ratio
from detection_core.datasets.masks import read_mask
from detection_core.datasets.readers import find_reader
from detection_core.datasets.shapes import place_mask, place_objects
from detection_core.errors import ConfigError, DataError
from detection_core.progress import Progress
from detection_core.storage import files
from detection_core.storage.file_parts import file_part

WHOLE = ""
"""Part name of a data set without splits."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Conversion:
    """The result of a conversion.

    Attributes:
        layout: of the source data set.
        files: split to its annotation file, relative to the new folder; the key "" for a set without splits.
        images: number of images.
        objects: number of objects.
        rejected: images and annotations that could not be used, by split.
    """

    layout: Layout
    files: Mapping[str, str]
    images: int
    objects: int
    rejected: Mapping[str, Sequence[Rejection]]


def convert_to_coco(
    root: str,
    out: str,
    data_format: str = "",
    *,
    copy: bool = False,
    class_names: Mapping[int, str] | None = None,
) -> Conversion:
    """Write a data set as COCO JSON with its images.

    The new folder holds `annotations.json` and `images`. A data set with splits becomes
    `annotations/instances_SPLIT.json` and `images/SPLIT`. Rejected records are listed in `quarantine.jsonl`.

    Args:
        root: the folder of the data set; its layout is detected.
        out: the new folder.
        data_format: a key of `readers.READERS`; "" detects the format.
        copy: copy image files instead of linking them.
        class_names: id to name, if a source other than the annotations gives them.

    Raises:
        ConfigError: if `out` is not empty, or the format is unknown.
        DataError: if no data set is found, or nothing in it can be used.
    """
    layout = find_layout(root, data_format)
    if files.exists(out) and (not files.is_dir(out) or files.list_dir(out)):
        raise ConfigError("expected a new folder, found one that holds something; name another", where=out)
    parts = {WHOLE: None} if is_by_ratio(layout.splits) else dict(layout.splits)
    read = functools.partial(find_reader(layout.format).read_split, layout.path, class_names=class_names)
    label_map, keypoint_names = _read_all(read, parts)
    counts = {"images": 0, "objects": 0}
    written: dict[str, str] = {}
    rejected: dict[str, list[Rejection]] = {}
    with files.atomic_dir(out) as folder, Progress("convert", unit="image") as progress:
        for split, location in parts.items():
            annotations = read(location)
            written[split] = f"annotations/instances_{split}.json" if split else "annotations.json"
            images = f"images/{split}" if split else "images"
            rejected[split] = []
            with open_coco(files.join(folder, written[split]), label_map, keypoint_names) as writer:
                for image in annotations.images:
                    with rejecting(rejected[split], image.filename, image.source_id):
                        _add(writer, image, files.join(folder, images), copy=copy)
                    progress.advance(1)
                counts["images"] += writer.images
                counts["objects"] += writer.objects
            rejected[split] += annotations.rejected
        if not counts["images"]:
            faults = (f"{r.file}: {r.detail}" for rejections in rejected.values() for r in rejections)
            first = next(faults, "no image")
            raise DataError(f"expected images that can be used, found none: {first}", where=root)
        if any(rejected.values()):
            write_quarantine(QUARANTINE.path(folder), rejected)
    return Conversion(layout=layout, files=written, rejected=rejected, **counts)


def _read_all(
    read: Callable[[Any], Annotations], parts: Mapping[str, Any]
) -> tuple[LabelMap, dict[str, list[str]]]:
    """Return the label map and keypoints of all parts, which are complete after the last image."""
    categories, points = [], []
    frequencies: dict[str, str] = {}
    for location in parts.values():
        annotations = read(location)
        for _ in annotations.images:
            pass
        categories.append(annotations.categories)
        points.append(annotations.keypoint_names)
        frequencies |= annotations.frequencies
    label_map = fill_label_map(make_label_map(categories), {}, frequencies)
    return label_map, merge_keypoint_names(points, label_map.ids_by_text)


def _add(writer: "CocoWriter", image: AnnotatedImage, folder: str, *, copy: bool) -> None:
    part = file_part(image.path)
    if not files.exists(part.path if part else image.path):
        raise Rejected("missing_image", "the file does not exist")
    size = (image.width, image.height) if image.width and image.height else shown_size(image.path)
    name = os.path.normpath(image.filename)
    place = path_inside(folder, name)
    if files.exists(place):
        raise Rejected("duplicate_id", f"the file name is that of another image: {name!r:.120}")
    writer.add(image._replace(objects=place_objects(image, *size), in_fractions=False), name, size)
    _put(image.path, place, copy=copy)


def _put(source: str, place: str, *, copy: bool) -> None:
    """Hard-link an image file into the new folder if the disk allows it, else copy it."""
    if file_part(source):
        files.write_bytes(place, files.read_regular(source, MAX_FILE_BYTES))
        return
    if not copy and not files.is_remote(source) and not files.is_remote(place):
        os.makedirs(os.path.dirname(place), exist_ok=True)
        try:
            os.link(os.path.realpath(source), place)
        except OSError:  # another disk, or one without hard links
            pass
        else:
            return
    files.copy_file(source, place)


_KEPT_IN_MEMORY = 1 << 24


class CocoWriter:
    """Writes one COCO JSON file image by image, without keeping the images in memory."""

    def __init__(
        self,
        out: IO[bytes],
        label_map: LabelMap,
        keypoint_names: Mapping[str, Sequence[str]],
        annotations: IO[bytes],
        model: str,
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
            | ({"frequency": item.frequency[0].lower()} if item.frequency != FREQUENCIES[0] else {})
            for item in label_map.items
        ]
        info = {"description": model} if model else {}
        head = f'{{"info": {json.dumps(info)}, "licenses": [],\n"categories": {json.dumps(categories)}'
        out.write(head.encode() + b',\n"images": [')

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
        for key, field in LVIS_FIELDS.items():
            if names := getattr(image, field):
                entry[key] = [self._ids[name] for name in names if name in self._ids]
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
    path: str, label_map: LabelMap, keypoint_names: Mapping[str, Sequence[str]], *, model: str = ""
) -> Iterator[CocoWriter]:
    """Yield the writer of a COCO JSON file. The file appears if the block ends without an error.

    `model` describes the detector of the objects; "" if people annotated them.
    """
    with files.atomic_file(path) as out, tempfile.SpooledTemporaryFile(_KEPT_IN_MEMORY) as annotations:
        writer = CocoWriter(out, label_map, keypoint_names, annotations, model)
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
    for key, names in EXTRA_FIELDS.items():
        values = {name: getattr(item, name) for name in names if getattr(item, name) is not None}
        entry |= {key: values} if values else {}
    return entry


def _segmentation(mask: Mask, size: tuple[int, int]) -> Any:
    if isinstance(mask, Polygons):
        return [list(ring) for ring in mask.rings]
    if isinstance(mask, MaskFile):
        try:
            mask = place_mask(read_mask(mask.path, *size[::-1]), 0, 0, *size)
        except ValueError as e:
            raise Rejected("malformed_mask", str(e)) from e
    counts = mask.counts if isinstance(mask.counts, str) else list(mask.counts)
    return {"size": [mask.height, mask.width], "counts": counts}
