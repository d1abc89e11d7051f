"""TFRecord files of the Object Detection API; records and images are read in place."""

import contextlib
import dataclasses
import fnmatch
import functools
import os
import posixpath
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from detection_core.bounded.limits import MAX_IMAGE_FILE_BYTES
from detection_core.data.record_format import FOOTER_BYTES, HEADER_BYTES, MAX_RECORD_BYTES, masked_checksum
from detection_core.datasets import layouts
from detection_core.datasets.annotated_images import (
    AnnotatedImage,
    Annotations,
    ReadAll,
    Rejected,
    Rejections,
    read_here,
    rejecting,
)
from detection_core.datasets.classes import check_keypoint_names
from detection_core.datasets.formats.tfrecord_example import RecordedExample
from detection_core.errors import ConfigError, DataError, shorten
from detection_core.storage import files
from detection_core.storage.file_parts import FilePart, PackedFile, is_packed, unpack_beginning
from detection_core.storage.folder_listing import FolderListing

LABEL_MAPS = (".pbtxt",)
_NO_NAMES: Mapping[int, str] = {}


def locate(root: str, location: Any) -> list[str]:
    """Find the record files of a split and the label maps next to them.

    `location` is a file, or a pattern of files with `*` and `?`, relative to `root`; None means all files.

    Raises:
        ConfigError: if the location has another form.
        DataError: if the file does not exist.
    """
    listing = layouts.list_data_set(root)
    return [*_record_files(root, location), *(listing.path(path) for path in listing.paths(*LABEL_MAPS))]


def _record_files(root: str, location: Any) -> list[str]:
    if not isinstance(location, str | None):
        raise ConfigError(f"expected a TFRecord file or a pattern, found {shorten(location)}", where="splits")
    if location is None:
        listing = layouts.list_data_set(root)
        found = [listing.path(path) for path in find_files(listing)]
    else:
        found = files.glob(f"{files.escape(root).rstrip('/')}/{location}")
    if not found:
        raise DataError(
            "expected TFRecord files, found none; correct data.splits", where=files.join(root, location or "")
        )
    return found


def read(
    root: str, location: Any, class_names: Mapping[int, str] = _NO_NAMES, read_all: ReadAll = read_here
) -> Annotations:
    """Read the examples of TFRecord files. Classes keep their ids in the records.

    `class_names` fills in the names or the ids that records lack.

    Raises:
        DataError: while the images are read, if a file is damaged, or a class has two ids.
    """
    return read_all(functools.partial(_read_files, root, class_names), _record_files(root, location))


def _read_files(root: str, class_names: Mapping[int, str], paths: Sequence[str]) -> Annotations:
    keypoint_names: dict[str, list[str]] = {}
    found = Annotations(rejected=Rejections(), keypoint_names=keypoint_names)
    ids = {name: number for number, name in class_names.items()}

    def images() -> Iterator[AnnotatedImage]:
        for path in paths:
            name = os.path.relpath(path, root)
            for number, (part, data) in enumerate(read_records(path)):
                with rejecting(found.rejected, name, f"record {number}"):
                    if data is None:
                        raise Rejected("malformed_record", "the record's checksum does not fit its bytes")
                    example = RecordedExample(data, part, class_names)
                    image = example.image(f"{name}-{number}")
                    _learn(found.categories, example.classes(), ids, path)
                    keypoint_names.update(example.keypoint_names())
                    yield image
        check_keypoint_names(keypoint_names, root)

    return dataclasses.replace(found, images=images())


def _learn(categories: dict[str, int], classes: Mapping[str, int], ids: Mapping[str, int], path: str) -> None:
    for name, told in classes.items():
        number = told or ids.get(name, 0)
        known = categories.get(name, 0)
        if known and number and known != number:
            raise DataError(
                f"expected one id for the class {name!r:.80}, found {known} and {number} in the records; "
                "make them again with one label map",
                where=path,
            )
        categories[name] = known or number


LOOKS_FOR = "TFRecord: files of any name with examples of the Object Detection API"

_OTHERS = (
    ".xml", ".json", ".txt", ".csv", ".yaml", ".yml", ".pbtxt", ".config", ".py", ".md", ".zip", ".jsonl",
)  # fmt: skip
"""Suffixes of files that are not opened to detect their format."""

_SAMPLE = 20
_HEAD = 1 << 16
_MOST_UNPACKED = 1 << 28  # bytes to decompress to count records


def find(listing: FolderListing) -> layouts.Layout | None:
    """Find the TFRecord files in a folder; several files of a split become a pattern."""
    found = find_files(listing)
    if not found:
        return None
    by_split = layouts.group_by_split(found)
    patterns = {split: _pattern(listing, paths) for split, paths in by_split.items() if split}
    divided = layouts.TRAIN in patterns and all(patterns.values())
    splits = layouts.name_splits(patterns) if divided else dict(layouts.RATIOS)
    places = sorted({posixpath.dirname(path) for path in found})
    said = f"{len(found)} TFRecord files in {', '.join(map(layouts.name_folder, places[:4]))}"
    images = sum(count_records(listing.path(path)) for path in found[:_SAMPLE])
    more = " or more" if len(found) > _SAMPLE else ""
    return layouts.Layout(
        format="tfrecord",
        path=listing.root,
        splits=splits,
        evidence=f"{said}, {images}{more} records",
        images=images,
    )


def find_files(listing: FolderListing) -> list[str]:
    """Return the TFRecord files with images in a folder; of many in one folder, open only some."""
    found = []
    for folder, names in listing.folders.items():
        others = (name for name in names if not name.lower().endswith(_OTHERS))
        maybe = [posixpath.join(folder, name) for name in others if not layouts.is_image(name)]
        known = [path for path in maybe[:_SAMPLE] if _holds_images(listing, path)]
        if len(known) == _SAMPLE:
            suffix = {posixpath.splitext(path)[1][:4] for path in known}
            known += [path for path in maybe[_SAMPLE:] if posixpath.splitext(path)[1][:4] in suffix]
        found += known
    return found


def _holds_images(listing: FolderListing, path: str) -> bool:
    head, _ = listing.ends(path, _HEAD)
    if _is_packed(head):
        head = unpack_beginning(head, _HEAD)
    return record_length(head[:HEADER_BYTES]) is not None and b"image/" in head


def _is_packed(head: bytes) -> bool:
    """Return whether a file is compressed; a first record's length may look like a compression header."""
    return is_packed(head) and record_length(head[:HEADER_BYTES]) is None


def record_length(header: bytes) -> int | None:
    """Return the length of the next record; None if the bytes are no record header."""
    if len(header) < HEADER_BYTES:
        return None
    length, checksum = struct.unpack("<QI", header[:HEADER_BYTES])
    return int(length) if masked_checksum(header[:8]) == checksum and length <= MAX_RECORD_BYTES else None


def count_records(path: str) -> int:
    """Count a local file's records by their lengths, up to the first damaged one; 0 for remote files.

    A compressed file is counted as far as it can be decompressed within seconds.
    """
    if files.is_remote(path):
        return 0
    count = position = 0
    with contextlib.suppress(OSError, DataError), open(path, "rb") as file:
        if _is_packed(file.read(HEADER_BYTES)):
            for part, _ in read_records(path):
                count += 1
                if part.offset > _MOST_UNPACKED:
                    break
            return count
        size = os.fstat(file.fileno()).st_size
        while (length := record_length(os.pread(file.fileno(), HEADER_BYTES, position))) is not None:
            position += HEADER_BYTES + length + FOOTER_BYTES
            if position > size:
                break
            count += 1
    return count


class _Unpacked:
    """The content of a compressed file, read sequentially."""

    def __init__(self, path: str) -> None:
        self._pieces = PackedFile(functools.partial(files.open_regular, path, sys.maxsize)).pieces()
        self._waiting = bytearray()

    def read(self, length: int) -> bytes:
        while len(self._waiting) < length:
            try:
                self._waiting += next(self._pieces)[1]
            except StopIteration:
                break
        with memoryview(self._waiting) as waiting:
            found = bytes(waiting[:length])
        del self._waiting[:length]
        return found


def read_records(path: str) -> Iterator[tuple[FilePart, bytes | None]]:
    """Yield the records of a file, compressed or not: the data's position, and the data, None if damaged.

    Raises:
        DataError: if the file cannot be read, or no record can be found after a damaged length.
    """
    position = number = 0
    try:
        with files.open_regular(path, sys.maxsize) as plain:
            head = plain.read(HEADER_BYTES)
            plain.seek(0)
            packed = _is_packed(head)
            file = _Unpacked(path) if packed else plain
            while header := file.read(HEADER_BYTES):
                length = record_length(header)
                if length is None:
                    raise _damaged(path, number, "no length")
                if length > MAX_IMAGE_FILE_BYTES:
                    found = f"expected records of at most {MAX_IMAGE_FILE_BYTES:,} bytes, found one of"
                    raise DataError(f"{found} {length:,}: number {number}", where=path)
                position += HEADER_BYTES
                data = file.read(length)
                footer = file.read(FOOTER_BYTES)
                if len(footer) < FOOTER_BYTES:
                    raise _damaged(path, number, "the end of the file")
                sound = struct.unpack("<I", footer)[0] == masked_checksum(data)
                yield FilePart(position, length, path, packed), data if sound else None
                position += length + FOOTER_BYTES
                number += 1
    except OSError as e:
        raise DataError(
            f"expected a TFRecord file, found one that cannot be read: {e.strerror or e}", where=path
        ) from e


def _damaged(path: str, number: int, found: str) -> DataError:
    return DataError(
        f"expected record {number} of a TFRecord file, found {found}: the file is damaged or cut; copy it"
        " again",
        where=path,
    )


def _pattern(listing: FolderListing, paths: Sequence[str]) -> str:
    """Return a pattern that matches exactly these files; "" if there is none."""
    if len(paths) == 1:
        return files.escape(paths[0])
    pattern = f"{files.escape(posixpath.commonprefix(paths))}*"
    here = posixpath.dirname(paths[0])
    same = all(posixpath.dirname(path) == here for path in paths)
    there = [posixpath.join(here, name) for name in listing.folders[here]]
    return pattern if same and set(fnmatch.filter(there, pattern)) == set(paths) else ""
