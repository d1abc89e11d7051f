"""Label Studio's JSON: a list of tasks, https://labelstud.io/guide/export."""

import dataclasses
import itertools
import json
import os
import re
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from detection_core.datasets import shapes
from detection_core.datasets.annotated_images import (
    MAX_ANNOTATION_BYTES,
    AnnotatedImage,
    AnnotatedObject,
    Annotations,
    Malformed,
    Rejection,
    Rejections,
    check_count,
    checked_id,
    checked_text,
    rejecting,
)
from detection_core.datasets.formats.annotation_files import AnnotationFile, FileFormat, Source, candidates
from detection_core.datasets.formats.json_files import list_of, mapping_of, number_of, point_of, size_of
from detection_core.datasets.image_files import ImageFiles
from detection_core.datasets.json_lists import OUTERMOST, PIECE, JsonLists
from detection_core.datasets.layouts import is_image
from detection_core.errors import DataError
from detection_core.storage import files
from detection_core.storage.folder_listing import FolderListing

LOOKS_FOR = "Label Studio: a JSON export (JSON or JSON-MIN) with a list of tasks"

_WHAT = "a JSON export of Label Studio"
_SIGNS = (b'"rectanglelabels"', b'"polygonlabels"', b'"ellipselabels"', b'"brushlabels"', b'"keypointlabels"')
_UPLOADED = re.compile(r"[0-9a-f]{8}-")
"""The prefix of an uploaded file's name."""

_IMAGE = re.compile(rb'"((?:[^"\\]|\\.)+\.(?:jpe?g|png|bmp|gif|tiff?|webp))"', re.IGNORECASE)
_SAMPLE = 50
_POINT = "keypointlabels"
_IMAGE_WIDE = ("choices", "textarea", "rating", "taxonomy", "number", "pairwise", "datetime", "relation")
"""Kinds of results without a position in the image."""

Result = Mapping[str, Any]
Points = Mapping[str, shapes.Point]
"""An object's keypoints by name."""


def find_files(listing: FolderListing) -> dict[str, AnnotationFile]:
    """Return the Label Studio exports in a folder."""
    found = {}
    for path in candidates(listing, ".json", most=_SAMPLE):
        text = b"".join(listing.ends(path))
        if text.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[") and any(sign in text for sign in _SIGNS):
            found[path] = AnnotationFile(names=list(_some_names(text)))
    return found


def _some_names(text: bytes) -> Iterator[str]:
    for quoted in _IMAGE.findall(text)[:_SAMPLE]:
        try:
            name = file_name(str(json.loads(b'"' + quoted + b'"')))
        except ValueError:
            continue
        yield from (name, _UPLOADED.sub("", name, count=1)) if _UPLOADED.match(name) else (name,)


_FORMAT = FileFormat(name="label_studio", title="Label Studio JSON", what=_WHAT, find_files=find_files)
find, locate = _FORMAT.find, _FORMAT.locate


def read(root: str, location: Any) -> Annotations:
    """Read an export. The categories are the classes that occur; the format does not list them.

    If a task has several annotations, the ground truth counts, else the first that was not cancelled. A task
    without any has not been annotated yet. See `FileFormat.sources` for `location`.

    Raises:
        DataError: if the whole file cannot be used.
    """
    sources = _FORMAT.sources(root, location)
    names: dict[str, list[str]] = {}
    if any(_mentions(source.annotations, _POINT.encode()) for source in sources):
        # Every object has all keypoints of its class, so read their names before the first object.
        tasks = itertools.chain.from_iterable(_read_tasks(source, []) for source in sources)
        names = shapes.keypoint_names((image, points or []) for image, points in tasks)
    found = Annotations(rejected=Rejections(), keypoint_names=names)

    def images() -> Iterator[AnnotatedImage]:
        for source in sources:
            for image, points in _read_tasks(source, found.rejected):
                if points is None:
                    found.unannotated.append(image)
                    continue
                found.about.add(image.path)
                with rejecting(found.rejected, os.path.basename(source.annotations), image.source_id):
                    filled = shapes.fill_keypoints(image, points, names)
                    found.categories.update((item.name, 0) for item in image.objects)
                    yield filled

    return dataclasses.replace(found, images=images())


def _read_tasks(
    source: Source, rejected: list[Rejection]
) -> Iterator[tuple[AnnotatedImage, list[Points] | None]]:
    """Yield the image of each task, and its objects' keypoints; None if it has not been annotated."""
    file, available = source.annotations.rpartition("/")[2], ImageFiles(source.images)
    for number, task in enumerate(_tasks(source.annotations), start=1):
        record = task.get("id", number) if isinstance(task, Mapping) else number
        with rejecting(rejected, file, str(record)):
            results = _results(mapping_of(task, "a task"))
            image, points = _image(task, results or [], available)
            yield image, None if results is None else points


def _tasks(path: str) -> Iterator[Any]:
    tasks = JsonLists(path, [OUTERMOST])
    try:
        for _, elements in tasks:
            yield from elements
    except DataError as e:
        raise DataError(f"expected {_WHAT}: {e.message}", where=path) from e
    if OUTERMOST not in tasks.found:
        raise DataError(f"expected {_WHAT}: expected the file as a list, found another value", where=path)


def _mentions(path: str, word: bytes) -> bool:
    """Return whether a file contains a word, in any encoding of JSON."""
    forms = [word.decode().encode(encoding) for encoding in ("utf-8", "utf-16-le", "utf-16-be")]
    before = b""
    try:
        with files.open_regular(path, MAX_ANNOTATION_BYTES) as file:
            while (data := file.read(PIECE)).strip(b"\0"):  # zeros: a sparse file, not JSON
                window = before + data
                if any(form in window for form in forms):
                    return True
                before = window[-4 * len(word) :]
    except OSError:
        pass  # the parser reports it
    return False


def _results(task: Mapping[str, Any]) -> list[Result] | None:
    """Return the results of a task of either export; None if it has not been annotated."""
    if "data" in task:
        given = [
            mapping_of(a, "an annotation") for a in list_of(task.get("annotations") or [], "annotations")
        ]
        done = [annotation for annotation in given if not annotation.get("was_cancelled")]
        done = [annotation for annotation in done if annotation.get("ground_truth")] or done
        if not done:
            return None
        return [mapping_of(result, "a result") for result in list_of(done[0].get("result"), "result")]
    # JSON-MIN: values by the name of their control.
    lists = [value for value in task.values() if isinstance(value, list)]
    regions = [region for value in lists for region in value if isinstance(region, Mapping)]
    if not regions and "annotation_id" not in task:
        return None
    kinds = [next((key for key in region if str(key).endswith("labels")), "") for region in regions]
    return [{"type": kind, "value": region, **region} for kind, region in zip(kinds, regions, strict=True)]


def _image(
    task: Mapping[str, Any], results: list[Result], available: ImageFiles
) -> tuple[AnnotatedImage, list[Points]]:
    data = mapping_of(task.get("data", task), "data")
    texts = [value for value in data.values() if isinstance(value, str)]
    url = next((text for text in texts if is_image(file_name(text))), texts[0] if texts else None)
    name = checked_text(file_name(checked_text(url, "the image's address")), "the image's name")
    filename = available.find(name)
    if filename == name and _UPLOADED.match(name):
        without = _UPLOADED.sub("", name, count=1)
        filename = available.find(without) if available.has(without) else name
    objects, points, (width, height) = read_objects(results)
    image = AnnotatedImage(checked_id(filename), filename, available.path(filename), width, height, objects)
    return image, points


def file_name(address: str) -> str:
    """Return the file name at the end of a URL, for example `/data/local-files/?d=folder/a.jpg`."""
    try:
        parts = urllib.parse.urlsplit(address)
    except ValueError:  # for example `http://[::1/a.jpg`
        return os.path.basename(address)
    local = urllib.parse.parse_qs(parts.query).get("d")
    return os.path.basename(local[0] if local else urllib.parse.unquote(parts.path))


def read_objects(results: Sequence[Result]) -> tuple[list[AnnotatedObject], list[Points], tuple[int, int]]:
    """Return the objects of an image with their keypoints, and its width and height in pixels, 0 if unknown.

    Positions are in percent of the image, turned about the first corner. A keypoint belongs to the region in
    its `parentID`.

    Raises:
        Rejected: if a result cannot be used.
    """
    objects: dict[str, AnnotatedObject] = {}
    points: list[tuple[str, str, shapes.Point, str]] = []
    size, drawn = (0, 0), 0
    check_count(len(results))
    for number, result in enumerate(results, start=1):
        label, kind = f"result {number}", result.get("type")
        if kind in _IMAGE_WIDE:
            continue
        if not isinstance(kind, str) or kind not in {*_REGIONS, _POINT}:
            raise Malformed(f"{label}: expected one of {', '.join([*_REGIONS, _POINT])}, found {kind!r:.40}")
        value = mapping_of(result.get("value"), f"{label}: value")
        size = size_of(result.get("original_width"), result.get("original_height"))
        if 0 in size or result.get("image_rotation"):
            raise Malformed(
                f"{label}: expected original_width and original_height of an image not turned in the tool"
            )
        name = _name(value, kind, label)
        if kind == _POINT:
            points.append((str(result.get("parentID")), name, _place(value, "x", "y", size, label), label))
        else:
            item = _REGIONS[kind](value, name, size, label)
            drawn = shapes.add_mask(drawn, item, size[0] * size[1])
            objects[str(result.get("id") or number)] = item
    return list(objects.values()), _points_of(objects, points), size


def _name(value: Result, kind: str, label: str) -> str:
    names = list_of(value.get(kind, value.get("labels")), f"{label}: {kind}")
    if len(names) != 1:
        raise Malformed(f"{label}: expected one class, found {names!r:.80}")
    return checked_text(names[0], f"{label}: a class").strip()


def _points_of(objects: Iterable[str], points: Sequence[tuple[str, str, shapes.Point, str]]) -> list[Points]:
    """Return the keypoints of each object, given the objects' ids."""
    drawn: dict[str, dict[str, shapes.Point]] = {key: {} for key in objects}
    for parent, name, point, label in points:
        if parent not in drawn or name in drawn[parent]:
            raise Malformed(
                f"{label}: expected the keypoint {name!r:.40} once inside a region (parentID), found "
                f"{parent!r:.40}; drop it onto its box in the outline"
            )
        drawn[parent][name] = point
    return list(drawn.values())


def _place(value: Result, x: str, y: str, size: tuple[int, int], label: str) -> shapes.Point:
    return (
        number_of(value.get(x), f"{label}: {x}") * size[0] / 100,
        number_of(value.get(y), f"{label}: {y}") * size[1] / 100,
    )


def _rectangle(value: Result, name: str, size: tuple[int, int], label: str) -> AnnotatedObject:
    (x, y), (width, height) = (
        _place(value, *keys, size, label) for keys in (("x", "y"), ("width", "height"))
    )
    degrees = number_of(value.get("rotation") or 0, f"{label}: rotation")
    if not degrees:
        return AnnotatedObject(name, (x, y, x + width, y + height), label=label)
    corners = shapes.turn(shapes.rectangle(x, y, width, height), (x, y), degrees)
    return shapes.polygon_object(name, corners, label)


def _polygon(value: Result, name: str, size: tuple[int, int], label: str) -> AnnotatedObject:
    points = [
        point_of(point, f"{label}: a point") for point in list_of(value.get("points"), f"{label}: points")
    ]
    return shapes.polygon_object(name, [(x * size[0] / 100, y * size[1] / 100) for x, y in points], label)


def _ellipse(value: Result, name: str, size: tuple[int, int], label: str) -> AnnotatedObject:
    center, radii = (_place(value, *keys, size, label) for keys in (("x", "y"), ("radiusX", "radiusY")))
    degrees = number_of(value.get("rotation") or 0, f"{label}: rotation")
    return shapes.polygon_object(name, shapes.ellipse(center, radii, degrees), label)


def _brush(value: Result, name: str, size: tuple[int, int], label: str) -> AnnotatedObject:
    """Return a painted object with the box around its pixels."""
    mask = shapes.brush_mask(list_of(value.get("rle"), f"{label}: rle"), *size)
    rows, columns = (mask.any(axis=axis).nonzero()[0] for axis in (1, 0))
    if not rows.size:
        raise Malformed(f"{label}: expected painted pixels, found none")
    left, top = int(columns[0]), int(rows[0])
    patch = mask[top : rows[-1] + 1, left : columns[-1] + 1]
    return shapes.mask_object(name, patch, (left, top), size, label)


_REGIONS: dict[str, Callable[[Result, str, tuple[int, int], str], AnnotatedObject]] = {
    "rectanglelabels": _rectangle,
    "polygonlabels": _polygon,
    "ellipselabels": _ellipse,
    "brushlabels": _brush,
}
