"""Model Maker's cache: TFRecords under a prefix, with metadata; and its label maps.

A cache has the files `PREFIX-00000-of-00010.tfrecord`, ... and `PREFIX_meta_data.yaml`, which is written last
and holds the number of images and the class names. Model Maker's caches also have COCO JSON, which is not
read.

A label map is a list of names, ids to names, a YAML file, or a known data set.
"""

import contextlib
import dataclasses
import logging
from collections.abc import Iterable, Mapping, Sequence

import yaml

from detection_core.config.automl.hparams import read_yaml_file, resolve_label_map, to_label_map
from detection_core.data.label_map import BACKGROUND, LabelMap
from detection_core.data.record_format import count_local_records, write_record
from detection_core.datasets.annotated_images import Rejected, Rejection
from detection_core.datasets.card import check_limit, count_reasons
from detection_core.datasets.encoding import find_decoding, make_example
from detection_core.errors import ConfigError, DataError, shorten
from detection_core.storage import files
from detection_core.storage.disk_cache import Cache
from detflow.object_detector.annotated_sets import AnnotatedSet

WHERE = "label_map"
Classes = Mapping[int, str] | Sequence[str] | str
"""Class names in the order of their ids, from 1; ids to names; a .yaml file; or coco, voc or waymo."""


def read_classes(label_map: Classes) -> dict[int, str]:
    """Return class ids, from 1, and their names.

    An id 0 is the background.

    Raises:
        ConfigError: for an invalid label map, such as one with an id below 0 or a repeated name.
    """
    if isinstance(label_map, str | Mapping):
        for number in label_map if isinstance(label_map, Mapping) else ():
            if not isinstance(number, int) or isinstance(number, bool) or number < 0:
                raise _refusal("ids that are whole numbers, from 1", number)
        names = resolve_label_map(label_map, WHERE)
    elif isinstance(label_map, Sequence):
        names = dict(enumerate(label_map, start=1))
    else:
        raise _refusal("names, ids to names, a .yaml file, or one of coco, voc and waymo", label_map)
    for number, name in names.items():
        if not isinstance(name, str):
            raise _refusal(f"a name for the id {number}", name)
    if names.get(0, BACKGROUND) != BACKGROUND:
        raise _refusal(f"{BACKGROUND!r} for the id 0, or no id 0", names[0])
    found = {number: name for number, name in sorted(names.items()) if number}
    if not found:
        raise _refusal("at least one class", label_map)
    to_label_map(found, WHERE)
    return found


def as_label_map(classes: Mapping[int, str]) -> LabelMap:
    """Return class ids and names in the format of the tasks."""
    return to_label_map(classes, WHERE)


def _refusal(expected: str, found: object) -> ConfigError:
    return ConfigError(f"expected {expected}, found {shorten(found)}; correct it", where=WHERE)


_META_DATA, _ANNOTATIONS = "_meta_data.yaml", "_annotations.json"
_SHARDS = "-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9].tfrecord"
_MADE_FROM = "made_from"
_REJECTED = "_quarantine.jsonl"
_LIMIT = 0.01

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordCache:
    """Records and their metadata.

    Attributes:
        pattern: of the TFRecord files.
        size: number of records.
        classes: class ids, from 1, to names.
        annotations: Model Maker's COCO JSON; "" if there is none.
        made_from: fingerprint of the sources; "" for a cache of Model Maker.
    """

    pattern: str
    size: int
    classes: Mapping[int, str]
    annotations: str = ""
    made_from: str = ""


def read_cache(prefix: str) -> RecordCache:
    """Return the records under a prefix; DataError without shards or metadata, or when one is damaged."""
    path = prefix + _META_DATA
    if not files.exists(path):
        raise DataError("expected a cache with its metadata, found none; make it again", where=path)
    meta = read_yaml_file(path)
    size, classes = meta.get("size"), meta.get("label_map")
    if not isinstance(size, int) or not isinstance(classes, Mapping):
        raise DataError(
            f"expected size and label_map, found {shorten(meta)}; make the cache again", where=path
        )
    pattern = files.escape(prefix) + _SHARDS
    found = files.glob(pattern)
    if not found:
        pattern = files.escape(prefix) + "*.tfrecord"
        found = files.glob(pattern)
    if not found:
        raise DataError("expected TFRecord files, found none; make the cache again", where=pattern)
    count = count_images(found)
    if count != size:
        raise DataError(
            f"expected {size} images, as the metadata say, found {count} in {len(found)} files; make the"
            " cache again, or copy all of its files",
            where=prefix,
        )
    annotations = prefix + _ANNOTATIONS
    return RecordCache(
        pattern=pattern,
        size=size,
        classes=read_classes(classes),
        annotations=annotations if files.exists(annotations) else "",
        made_from=str(meta.get(_MADE_FROM, "")),
    )


def count_images(paths: Iterable[str]) -> int:
    """Count the records of files; DataError when one is truncated or not a TFRecord file."""
    count = 0
    for path in paths:
        if files.is_remote(path):
            from detection_core.data.records import count_records

            count += count_records(path)
        else:
            count += count_local_records(path)
    return count


def is_current(prefix: str, made_from: str) -> bool:
    """Tell whether a cache matches its sources; Model Maker's caches always do."""
    try:
        return read_cache(prefix).made_from in ("", made_from)
    except (DataError, ConfigError):
        return False


def keep_records(
    prefix: str, part: AnnotatedSet, classes: Mapping[int, str], *, num_shards: int, made_from: str
) -> None:
    """Write the cache of a set unless it is current; one process writes at a time. See `write_cache`."""
    folder, _, name = prefix.rpartition("/")
    if is_current(prefix, made_from):
        return
    with Cache(folder).exclusive(name):
        if not is_current(prefix, made_from):
            write_cache(prefix, part, classes, num_shards=num_shards, made_from=made_from)


def write_cache(
    prefix: str, part: AnnotatedSet, classes: Mapping[int, str], *, num_shards: int, made_from: str
) -> None:
    """Write images as records; unusable ones are skipped with a warning.

    Existing files are replaced. `made_from` is the fingerprint that `is_current` compares.

    Raises:
        DataError: when there is no image, or more than one in a hundred is unusable.
    """
    _remove(prefix)
    images_of_shards = max(1, min(num_shards, len(part.images)))
    ids = {name: number for number, name in classes.items()}
    check, left_out, size = find_decoding("sample").check, list(part.rejected), 0
    with contextlib.ExitStack() as stack:
        shards = [
            stack.enter_context(files.atomic_file(f"{prefix}-{i:05d}-of-{images_of_shards:05d}.tfrecord"))
            for i in range(images_of_shards)
        ]
        for image in part.images:
            try:
                example = make_example(image, ids, check)
            except Rejected as e:
                left_out.append(Rejection(image.filename, image.source_id, e.reason, e.detail))
                continue
            write_record(shards[size % images_of_shards], example.data)
            size += 1
        _check_left_out(prefix, left_out, size)
    meta = {"size": size, "label_map": dict(classes), _MADE_FROM: made_from}
    files.write_text(prefix + _META_DATA, yaml.safe_dump(meta, allow_unicode=True))  # completes the cache


def _check_left_out(prefix: str, left_out: Sequence[Rejection], size: int) -> None:
    annotated = size + len(left_out)
    if not annotated:
        raise DataError("expected annotated images, found none; correct the folders", where=prefix)
    check_limit({"": left_out}, annotated, _LIMIT, prefix + _REJECTED, remedy="mend the data")
    if left_out:
        reasons = ", ".join(f"{reason} {count}" for reason, count in count_reasons(left_out).items())
        _logger.warning("%d of %d images are left out: %s", len(left_out), annotated, reasons)


def _remove(prefix: str) -> None:
    """Remove a replaced cache, metadata first, so that an incomplete one is not read."""
    for path in (prefix + _META_DATA, prefix + _ANNOTATIONS, *files.glob(files.escape(prefix) + _SHARDS)):
        if files.exists(path):
            files.remove_tree(path)
