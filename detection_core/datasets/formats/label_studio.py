"""Label Studio's own JSON: a list of tasks, https://labelstud.io/guide/export."""

from __future__ import annotations

import collections
import json
import os
import re
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

from detection_core.bounded.limits import MAX_VALUES
from detection_core.datasets.annotated_images import (
    MAX_ANNOTATION_BYTES,
    AnnotatedImage,
    Annotations,
    Rejected,
    Rejection,
    Rejections,
    check_count,
    checked_id,
    checked_text,
)
from detection_core.datasets.formats.annotation_files import (
    AnnotationFile,
    Source,
    candidates,
    describe_files,
    locate_paths,
    locate_sources,
)
from detection_core.datasets.formats.json_files import list_of, mapping_of
from detection_core.datasets.formats.label_studio_results import Result, read_objects
from detection_core.datasets.image_files import ImageFiles
from detection_core.datasets.json_lists import OUTERMOST, PIECE, JsonLists
from detection_core.datasets.layouts import Layout, is_image
from detection_core.errors import DataError
from detection_core.storage import files
from detection_core.storage.folder_listing import FolderListing

LOOKS_FOR = "Label Studio: a JSON export (JSON or JSON-MIN) with a list of tasks"

_WHAT = "a JSON export of Label Studio"
_SIGNS = (b'"rectanglelabels"', b'"polygonlabels"', b'"ellipselabels"', b'"brushlabels"', b'"keypointlabels"')
_UPLOADED = re.compile(r"[0-9a-f]{8}-")
"""What is put before the name of an uploaded file."""

_IMAGE = re.compile(rb'"((?:[^"\\]|\\.)+\.(?:jpe?g|png|bmp|gif|tiff?|webp))"', re.IGNORECASE)
_SAMPLE = 50
_KEYPOINTS = b"keypointlabels"


def find(listing: FolderListing) -> Layout | None:
    """Find the Label Studio exports in a folder, and where their images are.

    Raises:
        DataError: when there are several files, and no telling which split each is.
    """
    return describe_files(listing, "label_studio", "Label Studio JSON", find_files(listing))


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


def locate(root: str, location: Any) -> list[str]:
    """Find the JSON file and the image folder of a split.

    Args:
        root: folder of the data set.
        location: `{"annotations": FILE, "images": FOLDER}`, relative to `root`; None for the only export
            below `root`.

    Raises:
        ConfigError: when the location is something else.
        DataError: when one of them is not there.
    """
    return locate_paths(root, location, find_files, _WHAT)


def read(root: str, location: Any) -> Annotations:
    """Read an export. The categories are the classes that occur; the format has no list of them.

    Of several annotations of a task the one marked as ground truth counts, else the first that was not
    cancelled. Images of tasks without one were not looked at yet.

    Args:
        root: folder of the data set.
        location: see `locate`.

    Raises:
        DataError: when the file as a whole cannot be used.
    """
    sources = locate_sources(root, location, find_files, _WHAT)
    met: dict[str, list[str]] = {}
    if any(_mentions(source.annotations, _KEYPOINTS) for source in sources):
        # Every object has all points of its class, so these have to be known before the first.
        for source in sources:
            collections.deque(_read_tasks(source, met, []), maxlen=0)
    in_order = {name: sorted(points) for name, points in sorted(met.items())}
    rejected = Rejections()
    unannotated: list[AnnotatedImage] = []
    about: set[str] = set()
    categories: dict[str, int] = {}

    def images() -> Iterator[AnnotatedImage]:
        for source in sources:
            for image, annotated in _read_tasks(source, met, rejected):
                if not annotated:
                    unannotated.append(image)
                    continue
                about.add(image.path)
                try:
                    filled = _with_all_points(image, met, in_order) if met else image
                except Rejected as e:
                    file = source.annotations.rpartition("/")[2]
                    rejected.append(Rejection(file, image.source_id, e.reason, e.detail))
                    continue
                categories.update((item.name, 0) for item in image.objects)
                yield filled

    return Annotations(
        categories=categories,
        images=images(),
        rejected=rejected,
        keypoint_names=in_order,
        unannotated=unannotated,
        about=about,
    )


def _read_tasks(
    source: Source, keypoint_names: dict[str, list[str]], rejected: list[Rejection]
) -> Iterator[tuple[AnnotatedImage, bool]]:
    """Yield the image of each task, and whether anybody has annotated it."""
    file, available = source.annotations.rpartition("/")[2], ImageFiles(source.images)
    for number, task in enumerate(_tasks(source.annotations), start=1):
        try:
            found = _results(mapping_of(task, "a task"))
            image = _image(task, found or [], available, keypoint_names)
        except Rejected as e:
            record = str(task.get("id", number)) if isinstance(task, Mapping) else str(number)
            rejected.append(Rejection(file, record, e.reason, e.detail))
            continue
        yield image, found is not None


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
    """Tell whether a file holds a word, in any encoding that JSON may have."""
    forms = [word.decode().encode(encoding) for encoding in ("utf-8", "utf-16-le", "utf-16-be")]
    before = b""
    try:
        with files.open_regular(path, MAX_ANNOTATION_BYTES) as file:
            while (data := file.read(PIECE)).strip(b"\0"):  # JSON has none, sparse files nothing else
                window = before + data
                if any(form in window for form in forms):
                    return True
                before = window[-4 * len(word) :]
    except OSError:
        pass  # said when it is parsed
    return False


def _results(task: Mapping[str, Any]) -> list[Result] | None:
    """Return the results of a task, of either export; None where nobody has annotated it."""
    if "data" in task:
        given = [
            mapping_of(a, "an annotation") for a in list_of(task.get("annotations") or [], "annotations")
        ]
        done = [annotation for annotation in given if not annotation.get("was_cancelled")]
        done = [annotation for annotation in done if annotation.get("ground_truth")] or done
        if not done:
            return None
        return [mapping_of(result, "a result") for result in list_of(done[0].get("result"), "result")]
    # JSON-MIN: the values themselves, by the name of the control.
    lists = [value for value in task.values() if isinstance(value, list)]
    regions = [region for value in lists for region in value if isinstance(region, Mapping)]
    if not regions and "annotation_id" not in task:
        return None
    kinds = [next((key for key in region if str(key).endswith("labels")), "") for region in regions]
    return [{"type": kind, "value": region, **region} for kind, region in zip(kinds, regions, strict=True)]


def _image(
    task: Mapping[str, Any],
    results: list[Result],
    available: ImageFiles,
    keypoint_names: dict[str, list[str]],
) -> AnnotatedImage:
    data = mapping_of(task.get("data", task), "data")
    texts = [value for value in data.values() if isinstance(value, str)]
    url = next((text for text in texts if is_image(file_name(text))), texts[0] if texts else None)
    name = checked_text(file_name(checked_text(url, "the image's address")), "the image's name")
    filename = available.find(name)
    if filename == name and _UPLOADED.match(name):
        without = _UPLOADED.sub("", name, count=1)
        filename = available.find(without) if available.has(without) else name
    objects, (width, height) = read_objects(results, keypoint_names)
    return AnnotatedImage(checked_id(filename), filename, available.path(filename), width, height, objects)


def _with_all_points(
    image: AnnotatedImage, met: Mapping[str, list[str]], in_order: Mapping[str, list[str]]
) -> AnnotatedImage:
    """Return an image whose objects have all keypoints of their class, those not drawn among them.

    Args:
        image: with the keypoints that were met up to it.
        met: class to names, in the order in which they were met.
        in_order: class to names, in the order that objects are to have.
    """
    count = sum(len(in_order.get(item.name, ())) for item in image.objects)
    check_count(count, "keypoints of an image", MAX_VALUES)
    objects = []
    for item in image.objects:
        drawn = dict(zip(met.get(item.name, ()), item.keypoints or (), strict=False))
        filled = [drawn.get(name, (0.0, 0.0, 0)) for name in in_order.get(item.name, ())]
        objects.append(item._replace(keypoints=filled) if filled else item)
    return image._replace(objects=objects)


def file_name(address: str) -> str:
    """Return the file name at the end of an address, `/data/local-files/?d=folder/a.jpg` among them."""
    try:
        parts = urllib.parse.urlsplit(address)
    except ValueError:  # `http://[::1/a.jpg`, say
        return os.path.basename(address)
    local = urllib.parse.parse_qs(parts.query).get("d")
    return os.path.basename(local[0] if local else urllib.parse.unquote(parts.path))
