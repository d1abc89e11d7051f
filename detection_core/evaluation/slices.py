"""Measure parts of a split: images of some size, or with some value of any feature."""

import csv
import dataclasses
import functools
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from detection_core.artifacts.evaluation import EvalSlice, slice_metric
from detection_core.errors import ConfigError, DataError, shorten
from detection_core.evaluation.coco_metrics import Kind
from detection_core.evaluation.evaluated_split import EvaluatedSplit
from detection_core.storage import files
from detection_core.structures import Instances

IMAGE_SIZE = "image_size"
_ID = "source_id"
_PIXELS = {"small": 512**2, "medium": 1024**2, "large": math.inf}
"""Size of an image to the number of pixels that it is below."""
_MOST_VALUES = 100


@dataclasses.dataclass(frozen=True, kw_only=True)
class Feature:
    """A feature of images.

    Attributes:
        name: of the feature.
        values: all values, in the order of reports.
        value_of: ground truth of an image to its value, "" if unknown.
    """

    name: str
    values: tuple[str, ...]
    value_of: Callable[[Instances], str]


def load_features(source: str) -> tuple[Feature, ...]:
    """Return the size of images and the features of a CSV file.

    Args:
        source: `IMAGE_SIZE` for the size alone, or the path of a file. Its column `source_id` has the ids of
            images, each other column a feature; an empty cell is no value. "": no features.

    Raises:
        ConfigError: for a file that cannot be read, or a column with more than 100 values.
    """
    if not source:
        return ()
    size = Feature(name=IMAGE_SIZE, values=tuple(_PIXELS), value_of=_size)
    return (size,) if source == IMAGE_SIZE else (size, *_read_features(source))


def _size(image: Instances) -> str:
    return next(name for name, limit in _PIXELS.items() if image.height * image.width < limit)


def _read_features(path: str) -> Iterator[Feature]:
    text = files.read_user_text(path, what="CSV file of slices")
    try:
        head, *rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(text)) if row] or [[]]
    except csv.Error as e:
        raise ConfigError(f"expected CSV, found another text ({e}); correct the file", where=path) from e
    if _ID not in head or len(set(head)) < len(head) or not all(head):
        found = f"found {shorten(head)}; correct the first row"
        raise ConfigError(f"expected {_ID} and different names of columns, {found}", where=path)
    cells = {row[head.index(_ID)]: dict(zip(head, row, strict=True)) for row in rows if len(row) == len(head)}
    if len(cells) < len(rows):
        found = f"found {len(rows)} rows for {len(cells)} images; correct them"
        raise ConfigError(f"expected one row of {len(head)} cells for each image, {found}", where=path)
    for name in (name for name in head if name != _ID):
        values = {id_: row[name] for id_, row in cells.items()}
        known = tuple(sorted(set(values.values()) - {""}))
        if len(known) > _MOST_VALUES:
            found = f"found {len(known)}; group them"
            raise ConfigError(f"expected at most {_MOST_VALUES} values of {name}, {found}", where=path)
        yield Feature(name=name, values=known, value_of=functools.partial(_cell, values))


def _cell(values: Mapping[str, str], image: Instances) -> str:
    return values.get(image.source_id, "")


def slice_metrics(features: Sequence[Feature], kinds: Sequence[Kind]) -> list[str]:
    """Return the names of the metrics of all slices."""
    return [slice_metric(f.name, v, kind.map_name) for f in features for v in f.values for kind in kinds]


def cut(
    splits: Mapping[str, EvaluatedSplit], features: Sequence[Feature]
) -> Iterator[tuple[EvalSlice, dict[str, EvaluatedSplit]]]:
    """Yield each slice that has images, and its part of each split; splits have the same images.

    Raises:
        DataError: if no image has a value of a feature.
    """
    images = next(iter(splits.values())).images
    for feature in features:
        values = np.array([feature.value_of(image.truth) for image in images])
        if not values.any():
            found = f"found none; write source_ids such as {shorten(images[0].truth.source_id)} to the file"
            raise DataError(f"expected images with a value of {feature.name}, {found}")
        for value in feature.values:
            places = np.flatnonzero(values == value)
            if len(places):
                objects = sum(int((~images[p].truth.is_crowd).sum()) for p in places.tolist())
                one = EvalSlice(feature=feature.name, value=value, images=len(places), objects=objects)
                yield one, {name: split.part(places) for name, split in splits.items()}


def slice_map(part: EvaluatedSplit, slice_: EvalSlice, kinds: Sequence[Kind]) -> dict[str, float]:
    """Return the mAP of each kind in a slice."""
    return {
        slice_metric(slice_.feature, slice_.value, kind.map_name): part.coco_of(kind).metrics()[kind.map_name]
        for kind in kinds
    }
