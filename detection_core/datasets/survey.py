"""A summary of a data set: counts, samples of sizes and boxes, and example images.

Memory is bounded, except for the annotations of one split.
"""

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from detection_core.datasets import layouts
from detection_core.datasets.annotated_images import (
    AnnotatedImage,
    AnnotatedObject,
    Annotations,
    Polygons,
    Rejected,
)
from detection_core.datasets.classes import make_label_map, merge_keypoint_names
from detection_core.datasets.image_files import left_over, shown_sizes
from detection_core.datasets.readers import find_reader
from detection_core.datasets.shapes import place_objects
from detection_core.errors import DataError, one_line
from detection_core.storage import files

SAMPLED_BOXES = 20_000
OPENED_IMAGES, OPENED_REMOTE_IMAGES = 200, 40
_SHOWN_OF_A_CLASS = 2
_SHOWN_PLACES = 10_000  # folders per split that examples are taken from
_PLACES = 100
_LOOKED_AT = 1_000  # further files to try if some cannot be opened


@dataclasses.dataclass(frozen=True, kw_only=True)
class Survey:
    """A summary of a data set.

    Attributes:
        images: annotated ones, of all splits.
        located: split to annotated images, for a set with splits.
        located_annotated: the same for images with objects.
        positions: number of images whose hash is in each hundredth, by which a set without splits is divided.
        annotated_positions: the same for images with objects.
        empty_images: without objects.
        unannotated: images without annotations, if the format does not take them for background.
        rejected: reason to images and annotations that cannot be used, from the annotations alone.
        classes: to objects, the most frequent first; 0 for a listed class without objects.
        masks: number of objects with a mask that is not merely their box.
        keypoints: class to objects with keypoints.
        keypoint_names: class to the names of its keypoints, in the order of the label map.
        most_objects: in one image.
        sizes: rows and columns of sampled images, int [S, 2].
        boxes: of sampled objects, normalised to their images, ymin, xmin, ymax, xmax, float32 [N, 4].
        opened: number of image files that were opened.
        unreadable: opened files without a readable size, with the fault.
        examples: images to show, with every class if there is room.
    """

    images: int
    located: Mapping[str, int]
    located_annotated: Mapping[str, int]
    positions: tuple[int, ...]
    annotated_positions: tuple[int, ...]
    empty_images: int
    unannotated: int
    rejected: Mapping[str, int]
    classes: Mapping[str, int]
    masks: int
    keypoints: Mapping[str, int]
    keypoint_names: Mapping[str, Sequence[str]]
    most_objects: int
    sizes: np.ndarray
    boxes: np.ndarray
    opened: int
    unreadable: tuple[str, ...]
    examples: tuple[AnnotatedImage, ...]

    @property
    def objects(self) -> int:
        """Annotated objects of all splits."""
        return sum(self.classes.values())

    def count(self, split: str, splits: Mapping[str, Any]) -> int:
        """Return a split's number of images with these `data.splits`; ratios are rounded to the hundredth."""
        if not layouts.is_by_ratio(splits):
            return self.located.get(split, 0)
        return _count(self.positions, split, splits)

    def count_annotated(self, split: str, splits: Mapping[str, Any]) -> int:
        """Return the number of images with objects of a split; arguments as in `count`."""
        if not layouts.is_by_ratio(splits):
            return self.located_annotated.get(split, 0)
        return _count(self.annotated_positions, split, splits)


def _count(positions: Sequence[int], split: str, ratios: Mapping[str, float]) -> int:
    ratios = layouts.check_splits(ratios).ratios  # in the order in which images are assigned
    middles = ((place + 0.5) / len(positions) for place in range(len(positions)))
    return sum(n for n, at in zip(positions, middles, strict=True) if layouts.split_at(at, ratios) == split)


def survey(
    root: str,
    data_format: str,
    splits: Mapping[str, Any],
    *,
    shown: int = 12,
    class_names: Mapping[int, str] | None = None,
) -> Survey:
    """Summarise a data set.

    Args:
        root: its folder, local or on an object store.
        data_format: a key of `readers.READERS`.
        splits: split to ratio or to the location of its annotations.
        shown: number of example images.
        class_names: id to name, if a source other than the annotations gives them.

    Raises:
        ConfigError: if the splits cannot be used.
        DataError: if the annotations cannot be read, or no image has an object.
    """
    counting = _Counting()
    reader = find_reader(data_format)
    for name, location in layouts.check_splits(splits).locations.items():
        counting.add(name, reader.read_split(root, location, class_names))
    if not counting.objects.seen:
        such = f"; of {sum(counting.rejected.values()):,} that cannot be used one is {counting.rejection}"
        raise DataError(
            f"expected annotated objects, found none on {counting.images.seen:,} images that were read as"
            f" {data_format}{such if counting.rejection else ''}; annotate some, or name the folder that"
            " holds only the data set",
            where=root,
        )
    most = OPENED_REMOTE_IMAGES if files.is_remote(root) else OPENED_IMAGES
    sizes, unreadable = _open(counting.images.kept, most)
    known, objects = dict(sizes), counting.objects.kept
    silent = {image.path: image for image, _ in objects if not (image.width and image.height)}
    # A limited number of further files is read for their sizes.
    unknown = [image for path, image in silent.items() if path not in known][: 5 * most]
    boxes = _boxes(objects, known | dict(_open(unknown, 5 * most)[0]))
    return Survey(
        images=counting.images.seen,
        located=dict(counting.splits),
        located_annotated=dict(counting.annotated_splits),
        positions=tuple(counting.positions),
        annotated_positions=tuple(counting.annotated_positions),
        empty_images=counting.empty,
        unannotated=sum(map(len, left_over(counting.unannotated, counting.about))),
        rejected=dict(sorted(counting.rejected.items(), key=lambda item: (-item[1], item[0]))),
        classes=dict(counting.classes.most_common()),
        masks=counting.masks,
        keypoints=dict(+counting.keypoints),
        keypoint_names=counting.keypoint_names(),
        most_objects=counting.most_objects,
        sizes=np.array([size for _, size in sizes] or np.zeros((0, 2)), np.int64),
        boxes=boxes,
        opened=len(sizes) + len(unreadable),
        unreadable=tuple(unreadable),
        examples=tuple(counting.examples(shown)),
    )


class _Counting:
    """Counts and samples of the images read."""

    def __init__(self) -> None:
        self.splits: collections.Counter[str] = collections.Counter()
        self.annotated_splits: collections.Counter[str] = collections.Counter()
        self.classes: collections.Counter[str] = collections.Counter()
        self.positions, self.annotated_positions = [0] * _PLACES, [0] * _PLACES
        self.empty = self.most_objects = self.masks = 0
        self.keypoints: collections.Counter[str] = collections.Counter()
        self._names: list[Mapping[str, Sequence[str]]] = []
        self._categories: list[Mapping[str, int]] = []
        self.images: layouts.Reservoir[AnnotatedImage] = layouts.Reservoir(_LOOKED_AT)
        self.objects: layouts.Reservoir[tuple[AnnotatedImage, int]] = layouts.Reservoir(SAMPLED_BOXES)
        self.rejected: collections.Counter[str] = collections.Counter()
        self.rejection = ""
        self.unannotated: list[Iterable[AnnotatedImage]] = []
        self.about: list[Iterable[str]] = []
        self._of_class: dict[str, list[AnnotatedImage]] = {}
        self._of_place: dict[tuple[str, str], AnnotatedImage] = {}

    def add(self, split: str, found: Annotations) -> None:
        self.splits[split] += 0
        self.unannotated.append(found.unannotated)
        self.about.append(found.about)
        for image in found.images:
            self.splits[split] += 1
            self.annotated_splits[split] += bool(image.objects)
            place = int(layouts.split_position(image.source_id) * _PLACES)
            self.positions[place] += 1
            self.annotated_positions[place] += bool(image.objects)
            self.images.add(image)
            if image.objects and len(self._of_place) < _SHOWN_PLACES:
                self._of_place.setdefault((split, image.path.rpartition("/")[0]), image)
            self.empty += not image.objects
            self.most_objects = max(self.most_objects, len(image.objects))
            for number, item in enumerate(image.objects):
                self.classes[item.name] += 1
                self.masks += _has_outline(item)
                self.keypoints[item.name] += any(seen for *_, seen in item.keypoints or ())
                self.objects.add((image, number))
                shown = self._of_class.setdefault(item.name, [])
                if len(shown) < _SHOWN_OF_A_CLASS and image not in shown:
                    shown.append(image)
        # Complete after the last image.
        self.classes.update(dict.fromkeys(found.categories, 0))
        self._categories.append(found.categories)
        self._names.append(found.keypoint_names)
        self.rejected.update(rejection.reason for rejection in found.rejected)
        if found.rejected and not self.rejection:
            self.rejection = one_line(f"{found.rejected[0].file}: {found.rejected[0].detail}", 200)

    def keypoint_names(self) -> Mapping[str, Sequence[str]]:
        """Return class to names of keypoints, in the order of the label map."""
        ids = make_label_map(self._categories).ids_by_text if any(self._names) else {}
        return merge_keypoint_names(self._names, ids)

    def examples(self, count: int) -> list[AnnotatedImage]:
        """Choose images from each split and folder, then of rare classes, then from the sample."""
        rare = [
            image
            for name, _ in reversed(self.classes.most_common())
            for image in self._of_class.get(name, ())
        ]
        places = [image for _, image in sorted(self._of_place.items(), key=lambda item: item[0])]
        mixed = [
            *layouts.spread(places, max(1, 2 * count // 3)),
            *rare,
            *layouts.spread(self.images.kept, count),
        ]
        unique = {image.path: image for image in mixed}
        return list(unique.values())[:count]


def _has_outline(item: AnnotatedObject) -> bool:
    """Tell whether an object's mask is more than its box, which some tools write as a polygon."""
    if not isinstance(item.mask, Polygons):
        return item.mask is not None
    return any(len({*ring[side::2]}) > 2 for ring in item.mask.rings for side in (0, 1))


def _open(images: Sequence[AnnotatedImage], most: int) -> tuple[list[tuple[str, tuple[int, int]]], list[str]]:
    """Read the sizes of at most `most` images; return (path, (rows, columns)) of each, and the faults."""
    sizes: list[tuple[str, tuple[int, int]]] = []
    faults: list[str] = []
    opened = images[:: -(-len(images) // most)] if images else ()
    found = shown_sizes([image.path for image in opened])
    for image, size in zip(opened, found, strict=True):
        if isinstance(size, Rejected):
            faults.append(f"{image.filename}: {size.detail}")
        else:
            sizes.append((image.path, size[::-1]))
    return sizes, faults


def _boxes(objects: Iterable[tuple[AnnotatedImage, int]], sizes: Mapping[str, tuple[int, int]]) -> np.ndarray:
    """Return sampled boxes, normalised, of images whose size is known."""
    boxes = []
    for image, number in objects:
        rows, columns = image.annotated_size or sizes.get(image.path, (0, 0))
        if min(rows, columns) < 1:
            continue
        item = place_objects(image._replace(objects=image.objects[number : number + 1]), columns, rows)[0]
        xmin, ymin, xmax, ymax = item.box
        if not (xmin < xmax and ymin < ymax):
            continue
        box = np.clip((ymin / rows, xmin / columns, ymax / rows, xmax / columns), 0.0, 1.0)
        if np.isfinite(box).all() and box[2] > box[0] and box[3] > box[1]:
            boxes.append(box)
    return np.array(boxes or np.zeros((0, 4)), np.float32).reshape(-1, 4)
