"""Converts an example of the Object Detection API to an annotated image."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from detection_core.data.encode import FLOAT_KEYS, INTEGER_KEYS, TEXT_KEYS, parse_example, values_of
from detection_core.datasets.annotated_images import (
    OPTIONAL_FIELDS,
    AnnotatedImage,
    AnnotatedObject,
    ImageLabel,
    Keypoint,
    MaskFile,
    Rejected,
    checked_id,
    checked_text,
)
from detection_core.storage.file_parts import FilePart, part_path

_CLASS, _LABEL = "image/object/class", "image/class"
_MASK = "image/object/mask"
_SIDES = tuple(f"image/object/bbox/{side}" for side in ("xmin", "ymin", "xmax", "ymax"))
_TEXTS = {
    "image/encoded", "image/filename", "image/format", "image/key/sha256", "image/source_id", *TEXT_KEYS
}  # fmt: skip
"""Keys of byte strings."""

_MORE: dict[str, tuple[str, Any]] = {
    "area": ("image/object/area", float),
    "crowd": ("image/object/is_crowd", int),
    **{
        field: (key, type(default))
        for field, (key, default) in OPTIONAL_FIELDS.items()
        if not isinstance(default, str)
    },
}
"""Field of an object to its key and the type of its values."""

_NUMBERS = {"image/height", "image/width", f"{_CLASS}/multiclass_scores", *FLOAT_KEYS, *INTEGER_KEYS}
"""Keys of numbers."""

_FINITE = {
    f"{_CLASS}/label", f"{_LABEL}/label", "image/object/keypoint/visibility",
    *(key for key, _ in _MORE.values()),
}  # fmt: skip
"""Keys of numbers other than coordinates: integers, which may be stored as floats, and weights."""


class RecordedExample:
    """An example in a file."""

    def __init__(self, data: bytes, part: FilePart, class_names: Mapping[int, str]) -> None:
        """Parse the record at `part`; names are for records with ids only; Rejected if it is malformed."""
        try:
            features = parse_example(data).features.feature
        except ValueError as e:
            raise Rejected("malformed_record", f"expected a tf.train.Example, found {e}") from e
        self._values = {key: list(values_of(feature)) for key, feature in features.items()}
        self._data, self._whole, self._class_names = data, part, class_names
        self._check_kinds()
        self._boxes = self._read_boxes()
        self._names = self._named(_CLASS)
        self._check_columns()

    def image(self, usual_id: str) -> AnnotatedImage:
        """Return the image; `usual_id` is its id if the record has none."""
        encoded = self._bytes("image/encoded")
        if len(encoded) != 1:
            raise Rejected("malformed_record", f"expected one image in image/encoded, found {len(encoded)}")
        size = [*self._numbers("image/width"), *self._numbers("image/height")]
        is_told = len(size) == 2 and min(size) > 0 and all(map(math.isfinite, size))
        width, height = (int(size[0]), int(size[1])) if is_told else (0, 0)
        source = next(iter(self._texts("image/source_id")), "") or usual_id
        filename = next(iter(self._texts("image/filename")), "") or source
        return AnnotatedImage(
            source_id=checked_id(source),
            filename=checked_text(filename, "image/filename"),
            path=self._parts(encoded)[0],
            width=width,
            height=height,
            objects=self._objects(),
            labels=self._labels(),
            in_fractions=True,
            example=part_path(self._whole),
        )

    def classes(self) -> dict[str, int]:
        """Return class name to id, 0 if the record has none."""
        found: dict[str, int] = {}
        for kind in (_CLASS, _LABEL):
            names, ids = self._named(kind), self._numbers(f"{kind}/label")
            for name, number in zip(names, ids or [0] * len(names), strict=False):
                found[name] = int(number)
        return found

    def keypoint_names(self) -> dict[str, list[str]]:
        """Return class name to the names of its keypoints, or their numbers if the record has no names."""
        if not self._names:
            return {}
        texts = self._texts("image/object/keypoint/text")
        count = len(texts or self._numbers("image/object/keypoint/x")) // len(self._names)
        names = texts[:count] if texts else [f"keypoint_{number}" for number in range(count)]
        return {name: names for name in self._names if names}

    def _check_kinds(self) -> None:
        """Reject a record that no decoder can parse: text for numbers or numbers for text."""
        for key, values in self._values.items():
            if not values:
                continue
            is_text = isinstance(values[0], bytes)  # all values or none
            if key in _NUMBERS if is_text else key in _TEXTS:
                expected, found = ("numbers", "text") if is_text else ("text", "numbers")
                raise Rejected("malformed_record", f"expected {expected} in {key}, found {found}")
            if key in _FINITE and isinstance(values[0], float) and not all(map(math.isfinite, values)):
                raise Rejected("malformed_record", f"expected finite numbers in {key}")

    def _read_boxes(self) -> list[tuple[float, ...]]:
        columns = [self._numbers(side) for side in _SIDES]
        if len({len(column) for column in columns}) > 1:
            raise Rejected(
                "malformed_record", f"expected as many of each side of a box, found {[*map(len, columns)]}"
            )
        return list(zip(*columns, strict=True))

    def _named(self, kind: str) -> list[str]:
        """Return the class names of objects or of the image, looked up by id if the record has ids only."""
        names = self._texts(f"{kind}/text")
        ids = self._numbers(f"{kind}/label")
        if names or not ids:
            return names
        unknown = sorted({int(number) for number in ids} - self._class_names.keys())
        if unknown:
            raise Rejected(
                "unknown_category",
                f"the ids {unknown[:5]} have no name: the record has no {kind}/text; name the classes in"
                " data.label_map, or in a .pbtxt file beside the records",
            )
        return [self._class_names[int(number)] for number in ids]

    def _check_columns(self) -> None:
        count = len(self._boxes)
        if len(self._names) != count:
            raise Rejected(
                "malformed_record", f"expected a class for each of {count} boxes, found {len(self._names)}"
            )
        for key in (f"{_CLASS}/label", "image/object/view", *(key for key, _ in _MORE.values())):
            if (found := len(self._values.get(key, ()))) not in (0, count):
                raise Rejected("malformed_record", f"expected {count} values in {key}, found {found}")
        if (found := len(self._bytes(_MASK))) not in (0, count):
            raise Rejected("malformed_mask", f"expected a mask for each of {count} boxes, found {found}")

    def _objects(self) -> list[AnnotatedObject]:
        said = {field: list(map(kind, self._numbers(key))) for field, (key, kind) in _MORE.items()}
        said["pose"] = self._texts("image/object/view")
        masks, keypoints = self._bytes(_MASK), self._keypoints(len(self._boxes))
        places = self._parts(masks)
        objects = []
        for at, (name, (xmin, ymin, xmax, ymax)) in enumerate(zip(self._names, self._boxes, strict=True)):
            label = f"object {at + 1}"
            item = AnnotatedObject(
                checked_text(name, f"{label}: class"), (xmin, ymin, xmax, ymax), label=label
            )
            more: dict[str, Any] = {field: values[at] for field, values in said.items() if values}
            if masks and masks[at]:
                more["mask"] = MaskFile(places[at])
            objects.append(item._replace(**more, keypoints=keypoints[at] if keypoints else None))
        return objects

    def _keypoints(self, objects: int) -> list[list[Keypoint]]:
        x, y, seen = (self._numbers(f"image/object/keypoint/{key}") for key in ("x", "y", "visibility"))
        if not x or not objects:
            return []
        seen = seen or [2] * len(x)
        if len({len(x), len(y), len(seen)}) > 1 or len(x) % objects:
            raise Rejected(
                "malformed_record", f"expected as many keypoints of each of {objects} objects, found {len(x)}"
            )
        points = [
            (a, b, int(flag)) if flag and math.isfinite(a + b) else (0.0, 0.0, 0)
            for a, b, flag in zip(x, y, seen, strict=True)
        ]
        each = len(points) // objects
        return [points[at * each : (at + 1) * each] for at in range(objects)]

    def _labels(self) -> list[ImageLabel]:
        names, confidences = self._named(_LABEL), self._numbers(f"{_LABEL}/confidence")
        confidences = confidences if len(confidences) == len(names) else [1.0] * len(names)
        return [ImageLabel(name, confidence) for name, confidence in zip(names, confidences, strict=True)]

    def _parts(self, texts: Sequence[bytes]) -> list[str]:
        """Return the paths of parts of the file with these bytes, which the record has in this order."""
        found, end = [], 0
        for text in texts:
            begin = self._data.find(text, end)
            end = begin + len(text)
            part = self._whole._replace(offset=self._whole.offset + begin, length=len(text))
            found.append(part_path(part))
        return found

    def _bytes(self, key: str) -> list[bytes]:
        return [value for value in self._values.get(key, ()) if isinstance(value, bytes)]

    def _numbers(self, key: str) -> list[float]:
        return [value for value in self._values.get(key, ()) if not isinstance(value, bytes)]

    def _texts(self, key: str) -> list[str]:
        try:
            return [text.decode() for text in self._bytes(key)]
        except UnicodeDecodeError as e:
            raise Rejected("malformed_record", f"expected text in UTF-8 in {key}: {e}") from e
