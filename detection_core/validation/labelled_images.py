"""Reads examples one by one for checks, without decoding pixels."""

import dataclasses
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from detection_core.data import records
from detection_core.data.encode import parse_example
from detection_core.data.label_map import LabelMap
from detection_core.errors import DataError
from detection_core.storage import files
from detection_core.storage.shard_cache import RecordFile, uri_of

_LONGEST_SIDE = 1 << 20
"""Maximum side of an image in pixels."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class LabelledImage:
    """One example.

    Attributes:
        record: its number in the split, from 0.
        source_id: id of the image.
        filename: of the image, as annotated.
        height: rows.
        width: columns.
        sha256: of the image file, 32 bytes; empty if unknown.
        boxes: float32 [G, 4], ymin, xmin, ymax, xmax, normalised to the image.
        classes: int [G], index in the label map's names; -1 for an unknown class.
        is_crowd: bool [G].
        features: the record's unchanged columns.
    """

    record: int
    source_id: str
    filename: str
    height: int
    width: int
    sha256: bytes
    boxes: np.ndarray
    classes: np.ndarray
    is_crowd: np.ndarray
    features: Any

    @property
    def encoded(self) -> bytes:
        """The image file."""
        return _first(self.features, "image/encoded")

    @property
    def masks(self) -> Sequence[bytes]:
        """Each object's mask, a PNG file of the image's size or empty; none at all if the record has none."""
        masks = _bytes(self.features, "image/object/mask")
        return masks if len(masks) == len(self.boxes) else ()

    @property
    def keypoints(self) -> np.ndarray:
        """Each object's keypoints, float32 [G, K, 2]: y, x, normalised; NaN for those without a label."""
        begin = "image/object/keypoint"
        y, x = (_floats(self.features, f"{begin}/{axis}") for axis in "yx")
        seen = np.asarray(_integers(self.features, f"{begin}/visibility"), bool)
        objects = len(self.boxes)
        if not objects or len(y) != len(x) or len(y) % objects:
            return np.zeros((objects, 0, 2), np.float32)
        points = np.stack([y, x], axis=-1)
        if len(seen) == len(points):
            points[~seen] = np.nan
        return points.reshape(objects, -1, 2)


def read_split(
    record_files: Iterable[RecordFile], label_map: LabelMap, start: int = 0
) -> Iterator[LabelledImage]:
    """Yield the examples of files, one in memory at a time; DataError names a damaged record."""
    raw = itertools.chain.from_iterable(map(_records, record_files))
    for number, record in enumerate(raw, start):
        yield parse_record(record, number, label_map)


def read_some(
    counts: Mapping[RecordFile, int], label_map: LabelMap, numbers: Collection[int]
) -> Iterator[LabelledImage]:
    """Yield the examples of a split with these numbers, given its files with their numbers of records.

    Files without them are not read, the other examples not parsed. Raises DataError as `read_split`.
    """
    start = 0
    for file, count in counts.items():
        wanted = [number for number in numbers if start <= number < start + count]
        for number, record in zip(range(start, max(wanted, default=-1) + 1), _records(file), strict=False):
            if number in wanted:
                yield parse_record(record, number, label_map)
        start += count


def _records(file: RecordFile) -> Iterator[bytes]:
    try:
        yield from records.read_records(file).prefetch(16).as_numpy_iterator()
    except records.READING_ERRORS as error:
        records.check_records(file)  # names a damaged record
        raise DataError(f"expected TFRecord files, found {error}", where=uri_of(file)) from error


def parse_record(record: bytes, number: int, label_map: LabelMap) -> LabelledImage:
    """Return a record as an image with its objects; DataError if malformed, or of unequal columns."""
    fault = records.column_fault(record)
    if fault:
        raise DataError(
            f"{fault}; make the examples again", where=f"record {number}, {records.image_name(record)}"
        )
    features = parse_example(record).features.feature
    sides = [_floats(features, key) for key in records.SIDES if key in features]
    boxes = np.stack(sides, axis=-1) if len(sides) == len(records.SIDES) else np.zeros((0, 4), np.float32)
    crowd = np.asarray(_integers(features, "image/object/is_crowd"), bool)
    return LabelledImage(
        record=number,
        source_id=_text(features, "image/source_id"),
        filename=_text(features, "image/filename"),
        height=_side(features, "image/height"),
        width=_side(features, "image/width"),
        sha256=_digest(_text(features, "image/key/sha256")),
        boxes=boxes,
        classes=_classes(features, label_map, len(boxes)),
        is_crowd=crowd if len(crowd) == len(boxes) else np.zeros(len(boxes), bool),
        features=features,
    )


def _classes(features: Any, label_map: LabelMap, count: int) -> np.ndarray:
    texts = _bytes(features, "image/object/class/text")
    if texts:
        ids = [label_map.ids_by_text.get(text.decode("utf-8", "replace"), 0) for text in texts]
    else:
        ids = list(_integers(features, "image/object/class/label")) or [0] * count
    found = np.asarray(ids, np.int64) - 1
    return np.where((found >= 0) & (found < label_map.num_classes), found, -1)


def _digest(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def _bytes(features: Any, key: str) -> Any:
    return features[key].bytes_list.value if key in features else ()


def _floats(features: Any, key: str) -> np.ndarray:
    return np.asarray(features[key].float_list.value if key in features else (), np.float32)


def _integers(features: Any, key: str) -> Any:
    return features[key].int64_list.value if key in features else ()


def _side(features: Any, key: str) -> int:
    """Return rows or columns of an image; 0 if missing or out of range."""
    side = int(next(iter(_integers(features, key)), 0))
    return side if 0 < side <= _LONGEST_SIDE else 0


def _first(features: Any, key: str) -> bytes:
    return bytes(next(iter(_bytes(features, key)), b""))


def _text(features: Any, key: str) -> str:
    return _first(features, key).decode("utf-8", "backslashreplace")


def stored_box(box: np.ndarray) -> list[float]:
    """Return a box in the form of findings."""
    return [round(float(side), 5) for side in box]


def folder_of(image: LabelledImage) -> str:
    """Return the annotated folder of an image file, often that of an annotator, camera or source."""
    return image.filename.replace("\\", "/").rpartition("/")[0]


def span_of(image: LabelledImage, spans: tuple[str, ...]) -> str:
    """Return an image's span, which ExampleGen prefixes to its id; "" if there is none."""
    span, separator, _ = image.source_id.partition("/")
    return span if separator and span in spans else ""


def split_names(examples_dir: str) -> list[str]:
    """Return the splits in a folder of examples, `train` first."""
    prefix = "Split-"
    names = [n.rstrip("/") for n in files.list_dir(examples_dir)]
    splits = sorted(n.removeprefix(prefix) for n in names if n.startswith(prefix))
    return sorted(splits, key=lambda split: split != "train")
