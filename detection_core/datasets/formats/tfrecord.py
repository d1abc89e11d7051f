"""TFRecord files of the Object Detection API, whose images are read where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from detection_core.data.example_wire import Feature, Span, parse_example
from detection_core.datasets.annotated_images import (
    AnnotatedImage,
    AnnotatedObject,
    Annotations,
    ImageLabel,
    Keypoint,
    MaskFile,
    Rejected,
    Rejection,
    checked_id,
    checked_text,
)
from detection_core.datasets.formats.tfrecord_files import find_files, read_records
from detection_core.datasets.layouts import list_data_set
from detection_core.datasets.shapes import make_object
from detection_core.errors import ConfigError, DataError, shorten
from detection_core.storage import files
from detection_core.storage.file_parts import FilePart, part_path

_SIDES = ("xmin", "ymin", "xmax", "ymax")


def locate(root: str, location: Any) -> list[str]:
    """Find the record files of a split.

    Args:
        root: folder of the data set.
        location: a file, or a pattern of files with `*` and `?`, relative to `root`; None for all below it.

    Raises:
        ConfigError: when the location is something else.
        DataError: when there is no such file.
    """
    if not isinstance(location, str | None):
        raise ConfigError(f"expected a TFRecord file or a pattern, found {shorten(location)}", where="splits")
    if location is None:
        listing = list_data_set(root)
        found = [listing.path(path) for path in find_files(listing)]
    else:
        found = files.glob(f"{files.escape(root).rstrip('/')}/{location}")
    if not found:
        raise DataError(
            "expected TFRecord files, found none; correct data.splits", where=files.join(root, location or "")
        )
    return found


def read(root: str, location: Any) -> Annotations:
    """Read the examples of TFRecord files. Classes keep the ids that the records give them.

    Args:
        root: folder of the data set.
        location: see `locate`.

    Raises:
        DataError: when a file is damaged, or a class has two ids.
    """
    images: list[AnnotatedImage] = []
    rejected: list[Rejection] = []
    categories: dict[str, int] = {}
    keypoint_names: dict[str, list[str]] = {}
    for path in locate(root, location):
        name = path.rpartition("/")[2]
        for number, (begin, data) in enumerate(read_records(path)):
            try:
                if data is None:
                    raise Rejected("malformed_record", "the record's checksum does not fit its bytes")
                example = _Example(data, begin, path)
                image = example.image(f"{name}-{number}")
                _learn(categories, example.classes(), path)
                keypoint_names |= example.keypoint_names()
                images.append(image)
            except Rejected as e:
                rejected.append(Rejection(name, f"record {number}", e.reason, e.detail))
    return Annotations(categories=categories, images=images, rejected=rejected, keypoint_names=keypoint_names)


def _learn(categories: dict[str, int], classes: dict[str, int], path: str) -> None:
    for name, number in classes.items():
        if categories.setdefault(name, number) != number:
            raise DataError(
                f"expected one id for the class {name!r:.80}, found {categories[name]} and {number} in the "
                "records; make them again with one label map",
                where=path,
            )


class _Example:
    """An example, as places in a file and numbers."""

    def __init__(self, data: bytes, begin: int, path: str) -> None:
        try:
            self._features = parse_example(data)
        except ValueError as e:
            raise Rejected("malformed_record", f"expected a tf.train.Example, found {e}") from e
        self._data, self._begin, self._path = data, begin, path
        self._names = self._texts("image/object/class/text")

    def image(self, usual_id: str) -> AnnotatedImage:
        """Return the image; `usual_id` is its id where the record has none."""
        encoded = self._spans("image/encoded")
        if len(encoded) != 1:
            raise Rejected("malformed_record", f"expected one image in image/encoded, found {len(encoded)}")
        path = self._part(encoded[0])
        size = [*self._numbers("image/width"), *self._numbers("image/height")]
        width, height = (int(size[0]), int(size[1])) if len(size) == 2 and min(size) > 0 else (0, 0)
        source = next(iter(self._texts("image/source_id")), "") or usual_id
        filename = next(iter(self._texts("image/filename")), "") or source
        return AnnotatedImage(
            source_id=checked_id(source),
            filename=checked_text(filename, "image/filename"),
            path=path,
            width=width,
            height=height,
            objects=self._objects(),
            labels=self._labels(),
            in_fractions=True,
        )

    def classes(self) -> dict[str, int]:
        """Return class name to id."""
        found: dict[str, int] = {}
        for kind in ("image/object/class", "image/class"):
            names, ids = self._texts(f"{kind}/text"), self._numbers(f"{kind}/label")
            found |= {name: int(number) for name, number in zip(names, ids, strict=False)}
        return found

    def keypoint_names(self) -> dict[str, list[str]]:
        """Return class name to the names of its keypoints."""
        texts = self._texts("image/object/keypoint/text")
        each = len(texts) // len(self._names) if self._names else 0
        return {name: texts[:each] for name in self._names if each}

    def _objects(self) -> list[AnnotatedObject]:
        columns = [self._numbers(f"image/object/bbox/{side}") for side in _SIDES]
        count = len(columns[0])
        if any(len(column) != count for column in columns) or len(self._names) != count:
            lengths = [*map(len, columns), len(self._names)]
            raise Rejected(
                "malformed_record",
                f"expected boxes and class texts of one number, found {lengths}",
            )
        objects = []
        for at, (name, *box) in enumerate(zip(self._names, *columns, strict=True)):
            label = f"object {at + 1}"
            objects.append(make_object(checked_text(name, f"{label}: class"), (*box,), label))
        return self._with_more(objects)

    def _with_more(self, objects: list[AnnotatedObject]) -> list[AnnotatedObject]:
        count = len(objects)
        said = {
            field: [kind(value) for value in self._numbers(f"image/object/{key}")]
            for field, (key, kind) in _MORE.items()
        }
        poses, masks = self._texts("image/object/view"), self._spans("image/object/mask")
        keypoints = self._keypoints(count)
        found = []
        for at, item in enumerate(objects):
            more: dict[str, Any] = {
                field: values[at] for field, values in said.items() if len(values) == count
            }
            if len(poses) == count:
                more["pose"] = poses[at]
            if len(masks) == count and masks[at].end > masks[at].begin:
                more["mask"] = MaskFile(self._part(masks[at]))
            found.append(item._replace(**more, keypoints=keypoints[at] if keypoints else None))
        return found

    def _keypoints(self, objects: int) -> list[list[Keypoint]]:
        x, y, seen = (self._numbers(f"image/object/keypoint/{key}") for key in ("x", "y", "visibility"))
        if not x or not objects:
            return []
        seen = seen or [2] * len(x)
        if len({len(x), len(y), len(seen)}) > 1 or len(x) % objects:
            raise Rejected(
                "malformed_record", f"expected as many keypoints of each of {objects} objects, found {len(x)}"
            )
        points = [(a, b, int(flag)) if flag else (0.0, 0.0, 0) for a, b, flag in zip(x, y, seen, strict=True)]
        each = len(points) // objects
        return [points[at * each : (at + 1) * each] for at in range(objects)]

    def _labels(self) -> list[ImageLabel]:
        names, confidences = self._texts("image/class/text"), self._numbers("image/class/confidence")
        confidences = confidences if len(confidences) == len(names) else [1.0] * len(names)
        return [ImageLabel(name, confidence) for name, confidence in zip(names, confidences, strict=True)]

    def _part(self, span: Span) -> str:
        return part_path(FilePart(self._begin + span.begin, span.end - span.begin, self._path))

    def _spans(self, key: str) -> list[Span]:
        return [value for value in self._feature(key) if isinstance(value, Span)]

    def _numbers(self, key: str) -> list[float]:
        return [value for value in self._feature(key) if not isinstance(value, Span)]

    def _texts(self, key: str) -> list[str]:
        try:
            return [self._data[span.begin : span.end].decode() for span in self._spans(key)]
        except UnicodeDecodeError as e:
            raise Rejected("malformed_record", f"expected text in UTF-8 in {key}: {e}") from e

    def _feature(self, key: str) -> Feature | Sequence[Any]:
        return self._features.get(key, ())


_MORE: dict[str, tuple[str, Any]] = {
    "area": ("area", float),
    "crowd": ("is_crowd", int),
    "difficult": ("difficult", int),
    "truncated": ("truncated", int),
    "group_of": ("group_of", int),
    "occluded": ("occluded", int),
    "depiction": ("depiction", int),
    "confidence": ("class/confidence", float),
    "weight": ("weight", float),
}
"""Field of an object to its key, and the type of its values."""
