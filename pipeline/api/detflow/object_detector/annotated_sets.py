"""Annotated images of any supported format in memory, the source of a cache."""

import collections
import csv
import dataclasses
import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from detection_core.datasets.annotated_images import AnnotatedImage, Rejection
from detection_core.datasets.classes import make_label_map
from detection_core.datasets.formats.csv_rows import SETS, open_csv, split_rows
from detection_core.datasets.layout_search import find_layout
from detection_core.datasets.layouts import is_by_ratio, is_image, split_at, split_position
from detection_core.datasets.readers import find_reader
from detection_core.errors import ConfigError, DataError
from detection_core.storage import files
from detection_core.storage.scratch_folder import ScratchFolder

TRAIN, VALIDATION, TEST = "train", "validation", "test"
SPLITS = (TRAIN, VALIDATION, TEST)
"""Order in which Model Maker returns the sets."""

_WORDS = {"TRAIN": TRAIN, "VALIDATION": VALIDATION, "TEST": TEST}
_OF_OURS = {"train": TRAIN, "eval": VALIDATION, "test": TEST}
_RATIOS = {TRAIN: 0.8, VALIDATION: 0.1, TEST: 0.1}


@dataclasses.dataclass
class AnnotatedSet:
    """The usable and unusable images of a split.

    Attributes:
        images: in the order of the source.
        rejected: unusable images and annotations.
        categories: class name to id, 0 if the source has no ids.
    """

    images: list[AnnotatedImage] = dataclasses.field(default_factory=list)
    rejected: list[Rejection] = dataclasses.field(default_factory=list)
    categories: dict[str, int] = dataclasses.field(default_factory=dict)

    def extend(self, other: "AnnotatedSet") -> None:
        """Add another set."""
        self.images += other.images
        self.rejected += other.rejected
        self.categories |= other.categories

    def taken(
        self, *, most: int | None = None, ids: Collection[str] | None = None, difficult: bool = True
    ) -> "AnnotatedSet":
        """Return a part of the set.

        It has at most the given number of images, and those with the given ids. Objects marked as difficult
        are kept on request.

        Raises:
            DataError: when an id has no image.
        """
        images, rejected = self.images, self.rejected
        if ids is not None:
            images = [image for image in images if image.source_id in ids]
            rejected = [item for item in rejected if item.record in ids]
            missing = sorted(set(ids) - {i.source_id for i in images} - {r.record for r in rejected})
            if missing:
                raise DataError(
                    f"expected an annotation file for each name, found none for {missing[0]!r}"
                    f" ({len(missing)} in all); leave out the suffix, and name files that are there",
                    where="annotation_filenames",
                )
        if not difficult:
            kept = [[item for item in image.objects if not item.difficult] for image in images]
            images = [image._replace(objects=objects) for image, objects in zip(images, kept, strict=True)]
        return AnnotatedSet(images[:most], rejected, self.categories)


def read_set(
    data_format: str, root: str, location: Any, class_names: Mapping[int, str] | None = None
) -> AnnotatedSet:
    """Read annotations of a format, see `detection_core.datasets.readers`.

    Raises:
        ConfigError: for an invalid format or location.
        DataError: when files or folders are missing or unreadable.
    """
    if isinstance(location, Mapping) and not root:
        given = {name: location[name] for name in ("annotations", "images")}
        places = {name: p if files.is_remote(p) else os.path.abspath(p) for name, p in given.items()}
        location = {**location, **places}
    found = find_reader(data_format).read_split(root, location, class_names)
    return AnnotatedSet(list(found.images), list(found.rejected), dict(found.categories))


def read_folder(path: str, data_format: str = "") -> dict[str, AnnotatedSet]:
    """Read a data set and detect its format; without splits it is split 8 : 1 : 1.

    `data_format` is a key of `readers.READERS`; "": detected. The sets are `train`, `validation` and `test`,
    if they exist.

    Raises:
        ConfigError: for an unknown format.
        DataError: when the folder has no data set of the format.
    """
    layout = find_layout(path, data_format)
    if is_by_ratio(layout.splits):
        return _divided(read_set(layout.format, layout.path, None))
    found = {
        _OF_OURS[name]: read_set(layout.format, layout.path, where)
        for name, where in layout.splits.items()
        if name in _OF_OURS
    }
    if not found:
        raise DataError(
            f"expected splits named {', '.join(_OF_OURS)}, found {', '.join(layout.splits)}", where=path
        )
    return found


def _divided(whole: AnnotatedSet) -> dict[str, AnnotatedSet]:
    """Split by a hash of each image's id, so that new images do not move others."""
    sets = {name: AnnotatedSet(categories=whole.categories) for name in SPLITS}
    for image in whole.images:
        sets[split_at(split_position(image.source_id), _RATIOS)].images.append(image)
    sets[TRAIN].rejected = whole.rejected
    return {name: part for name, part in sets.items() if part.images}


def read_csv(
    filename: str, images_dir: str | None, delimiter: str, quotechar: str
) -> dict[str, AnnotatedSet]:
    """Read a CSV file of boxes, by set.

    It has the columns of Google Cloud's importers: set, image, class and corners in fractions. Without a
    folder of images it has their paths, absolute or from the working folder. With one, it may have any
    columns of the CSV reader. The sets are `train`, `validation` and `test`, if they exist.

    Raises:
        ConfigError: for a delimiter or quote that is not one character.
        DataError: when the file cannot be read.
    """
    for name, text in (("delimiter", delimiter), ("quotechar", quotechar)):
        if len(text) != 1:
            raise ConfigError(f"expected one character, found {text!r}", where=name)
    with open_csv(filename) as file:
        parsed = split_rows(file, filename, delimiter=delimiter, quotechar=quotechar)
        rows = [row for _, row in parsed if any(row)]
    if not rows:
        raise DataError("expected rows, found none", where=filename)
    sets: dict[str, AnnotatedSet] = {}
    with ScratchFolder() as scratch:
        for path, folder, words in _plain_files(rows, images_dir, scratch, filename):
            for word in words:
                location = {"annotations": path, "images": folder, "subset": word}
                sets.setdefault(_WORDS[word], AnnotatedSet()).extend(read_set("csv", "", location))
    return sets


def _plain_files(
    rows: Sequence[Sequence[str]], images_dir: str | None, scratch: str, filename: str
) -> Iterator[tuple[str, str, list[str]]]:
    """Yield comma-separated files, the folders of their images and their sets, for the CSV reader."""
    is_google_s = any(len(row) > 1 and is_image(row[1].strip()) for row in rows[:2])
    if images_dir is not None and not is_google_s:
        yield _write_rows(rows, files.join(scratch, "0.csv")), images_dir, _words(rows)
        return
    by_folder: dict[str, list[list[str]]] = collections.defaultdict(list)
    for number, row in enumerate(rows, start=1):
        if number == 1 and is_google_s and not is_image(row[1].strip()):
            continue  # column names
        if len(row) < 2 or not row[1].strip():
            raise DataError(
                "expected the columns set, image, class and corners, found no image; give images_dir"
                " for other columns",
                where=f"{filename}:{number}",
            )
        folder, name = _place(row[1].strip(), images_dir)
        by_folder[folder].append([row[0], name, *row[2:]])
    for i, (folder, group) in enumerate(sorted(by_folder.items())):
        yield _write_rows(group, files.join(scratch, f"{i}.csv")), folder, _words(group)


def _place(name: str, images_dir: str | None) -> tuple[str, str]:
    """Return the folder of an image, and its name in it."""
    if images_dir is not None and not os.path.isabs(name) and not files.is_remote(name):
        return images_dir, name
    folder, _, base = name.rpartition("/")
    return folder or ("/" if name.startswith("/") else "."), base


def _write_rows(rows: Sequence[Sequence[str]], path: str) -> str:
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def _words(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the sets of rows, by Google's names; rows without a set are for training."""
    first = {row[0].strip().upper() for row in rows}
    found = {_OF_OURS[SETS[word]] for word in first if word in SETS}
    if not first <= set(SETS):
        found.add(TRAIN)
    return [word for word, split in _WORDS.items() if split in found]


def class_ids(sets: Collection[AnnotatedSet]) -> dict[int, str]:
    """Return ids and names of the classes of all sets: the source's ids, else from 1 in alphabetical order.

    Raises:
        DataError: when there is no class, or an id stands for two.
    """
    first = next((item for part in sets for item in part.rejected), None)
    if first and not any(part.categories for part in sets):
        raise DataError(f"expected images that can be used, found none: {first.detail}", where=first.file)
    return make_label_map([part.categories for part in sets]).texts_by_id


def fingerprint(sets: Mapping[str, AnnotatedSet], **arguments: Any) -> str:
    """Return a fingerprint of the sources of a cache: annotation content, image names and image sizes.

    The arguments are other settings of the cache, as JSON types.
    """
    digest = hashlib.sha256(json.dumps(arguments, sort_keys=True).encode())
    for name, part in sorted(sets.items()):
        for image in part.images:
            size = os.path.getsize(image.path) if os.path.isfile(image.path) else 0
            digest.update(f"{name} {size} {image!r}\n".encode(errors="backslashreplace"))
        digest.update(repr(part.rejected).encode(errors="backslashreplace"))
    return digest.hexdigest()
