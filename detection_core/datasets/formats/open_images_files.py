"""The files of an Open Images data set: found by their columns, and read row by row in bounded memory.

The columns are those of https://storage.googleapis.com/openimages/web/download_v7.html.
"""

import dataclasses
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from detection_core.bounded.limits import MAX_DEPTH, MAX_LONG_TEXT_BYTES, MAX_VALUES, parse_json_text
from detection_core.datasets.annotated_images import Malformed, Rejected
from detection_core.datasets.formats.annotation_files import AnnotationFile
from detection_core.datasets.formats.csv_rows import open_csv, split_rows
from detection_core.datasets.layouts import split_of_path
from detection_core.errors import ConfigError, DataError
from detection_core.storage import files
from detection_core.storage.folder_listing import FolderListing

BOX_COLUMNS = ("ImageID", "LabelName", "XMin", "XMax", "YMin", "YMax")
LABEL_COLUMNS = ("ImageID", "LabelName", "Confidence")
MASK_COLUMNS = ("MaskPath", "ImageID", "LabelName", "BoxXMin", "BoxXMax", "BoxYMin", "BoxYMax")

_SAMPLE = 50


@dataclasses.dataclass(frozen=True, kw_only=True)
class OpenImagesFiles:
    """Files that belong to a file of boxes. Paths are relative to the data set; "" if missing.

    Attributes:
        descriptions: names of the classes.
        labels: image-level labels of the same split.
        masks: mask files of the split's boxes.
    """

    descriptions: str
    labels: Sequence[str]
    masks: Sequence[str]


def find_boxes(listing: FolderListing) -> dict[str, AnnotationFile]:
    """Return the files of boxes in a folder, recognised by their columns."""
    found = {}
    for path, columns in _tables(listing):
        if set(BOX_COLUMNS) <= set(columns):
            rows = listing.ends(path)[0].decode("utf-8-sig", "replace").splitlines()[1 : _SAMPLE + 1]
            at = columns.index("ImageID")
            names = [row.split(",")[at] + ".jpg" for row in rows if row.count(",") >= at]
            if names:
                found[path] = AnnotationFile(names=names)
    return found


def find_companions(listing: FolderListing, boxes: str) -> OpenImagesFiles:
    """Return the other files for a file of boxes: of the same split, if names contain one."""
    split, of_kind = split_of_path(boxes), {LABEL_COLUMNS: [], MASK_COLUMNS: []}  # type: ignore[var-annotated]
    descriptions = ""
    for path, columns in _tables(listing):
        if "class-descriptions" in posixpath.basename(path):
            # Prefer `boxable` to the file with twenty thousand classes of image labels.
            descriptions = path if not descriptions or "boxable" in path else descriptions
        elif split_of_path(path) == split and not set(BOX_COLUMNS) <= set(columns):
            kind = next((kind for kind in (MASK_COLUMNS, LABEL_COLUMNS) if set(kind) <= set(columns)), None)
            if kind:
                of_kind[kind].append(path)
    return OpenImagesFiles(
        descriptions=descriptions, labels=of_kind[LABEL_COLUMNS], masks=of_kind[MASK_COLUMNS]
    )


def _tables(listing: FolderListing) -> Iterator[tuple[str, list[str]]]:
    for path in listing.paths(".csv"):
        first = listing.ends(path)[0].decode("utf-8-sig", "replace").partition("\n")[0]
        yield path, [column.strip() for column in first.split(",")]


def read_rows(path: str, columns: Sequence[str]) -> Iterator[tuple[int, Mapping[str, str] | Rejected]]:
    """Yield line and fields of each row of a table with these columns, or the row's fault.

    Raises:
        DataError: if the file cannot be read or a column is missing.
    """
    with open_csv(path) as text:
        rows = split_rows(text, path)
        header = [field.strip() for field in next(rows, (1, columns))[1]]
        missing = [column for column in columns if column not in header]
        if missing or len(set(header)) < len(header):
            raise DataError(
                f"expected the columns {', '.join(columns)}, each once, found {', '.join(header)[:200]}",
                where=path,
            )
        for line, fields in rows:
            if len(fields) == len(header):
                yield line, dict(zip(header, fields, strict=True))
            elif fields:
                yield line, Malformed(f"line {line}: expected {len(header)} fields, found {len(fields)}")


def read_descriptions(path: str) -> dict[str, str]:
    """Return label (`/m/...`) to name of the class; DataError if unreadable, or a later row is no pair."""
    names = {}
    with open_csv(path) as text:
        for line, fields in split_rows(text, path):
            if line == 1 and fields[:1] == ["LabelName"]:
                continue
            if len(fields) != 2 or not fields[1].isprintable() or not fields[1].strip():
                raise DataError(
                    f"expected a label and a name in line {line}, found {','.join(fields)!r:.80}", where=path
                )
            names[fields[0]] = fields[1].strip()
    return names


@dataclasses.dataclass(frozen=True)
class Hierarchy:
    """The hierarchy of classes: label to the labels of all classes above it, and below it."""

    ancestors: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    descendants: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)

    def implied(self, label: str, confidence: float = 1.0) -> Sequence[str]:
        """Return the other classes that a label implies.

        A present class implies its ancestors, an absent class implies the absence of its descendants. The
        Object Detection API's oid_hierarchical_labels_expansion.py does the same.
        """
        return (self.ancestors if confidence >= 1 else self.descendants).get(label, ())


def read_hierarchy(path: str) -> Hierarchy:
    """Read a class hierarchy, without its root; DataError if it cannot be read or is malformed."""
    try:
        root = parse_json_text(files.read_user_text(path, what="hierarchy", longest=MAX_LONG_TEXT_BYTES))
        ancestors: dict[str, dict[str, None]] = {}
        _walk(root, (), ancestors, [0])
    except ConfigError as e:
        raise DataError(e.message, where=path) from e
    except (ValueError, TypeError, KeyError, AttributeError) as e:
        raise DataError(
            f"expected a hierarchy: LabelName and Subcategory, found another text ({e!r:.80})", where=path
        ) from e
    descendants: dict[str, list[str]] = {}
    for label, above in ancestors.items():
        for each in above:
            descendants.setdefault(each, []).append(label)
    return Hierarchy({label: list(above) for label, above in ancestors.items()}, descendants)


def _walk(node: Any, above: tuple[str, ...], ancestors: dict[str, dict[str, None]], noted: list[int]) -> None:
    """Record each class's ancestors; a class in several places gets those of all."""
    for child in node.get("Subcategory", ()):
        label = str(child["LabelName"])
        noted[0] += 1 + len(above)
        if noted[0] > MAX_VALUES or len(above) > MAX_DEPTH:
            raise ValueError(f"classes below each other that are more than {MAX_VALUES:,} in all")
        ancestors.setdefault(label, {}).update(dict.fromkeys(above))
        _walk(child, (label, *above), ancestors, noted)
