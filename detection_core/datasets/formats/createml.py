"""Create ML: a JSON list of images; boxes are given by center and size in pixels.

https://developer.apple.com/documentation/createml/building-an-object-detector-data-source
"""

import re
from collections.abc import Mapping
from typing import Any

from detection_core.datasets.annotated_images import AnnotatedObject, Malformed, check_count, checked_text
from detection_core.datasets.formats.annotation_files import AnnotationFile, candidates
from detection_core.datasets.formats.json_files import EntryFormat, list_of, mapping_of, number_of
from detection_core.datasets.json_lists import OUTERMOST, JsonLists
from detection_core.datasets.layouts import spread
from detection_core.storage.folder_listing import FolderListing

LOOKS_FOR = "Create ML: a JSON list of images with annotations of label and coordinates"

_NAMES = ("image", "imagefilename", "filename")
_NAME = re.compile(rb'"(?:image|imagefilename|filename)"\s*:\s*"([^"\\]+)"')
_SAMPLE = 100
_SIDES = ("x", "y", "width", "height")


def find_files(listing: FolderListing) -> dict[str, AnnotationFile]:
    """Return the Create ML files in a folder."""
    found = {}
    for path in candidates(listing, ".json"):
        text = b"".join(listing.ends(path))
        if text.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[") and b'"coordinates"' in text:
            some = [name.decode(errors="replace") for name in _NAME.findall(text)]
            found[path] = AnnotationFile(names=spread(some, _SAMPLE))
    return found


def _objects(entry: Mapping[str, Any]) -> list[AnnotatedObject]:
    drawn = list_of(entry.get("annotations", []), "annotations")
    check_count(len(drawn))
    return [_object(mapping_of(item, "an annotation"), n) for n, item in enumerate(drawn, start=1)]


def _object(item: Mapping[str, Any], number: int) -> AnnotatedObject:
    label = f"annotation {number}"
    place = item.get("coordinates")
    if not isinstance(place, Mapping):
        raise Malformed(f"{label}: expected coordinates, found {place!r:.80}")
    x, y, width, height = (number_of(place.get(side), f"{label}: {side}") for side in _SIDES)
    box = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
    return AnnotatedObject(checked_text(item.get("label"), f"{label}: label").strip(), box, label=label)


_FORMAT = EntryFormat(
    name="createml",
    title="Create ML JSON",
    what="a JSON file of Create ML",
    find_files=find_files,
    entries=lambda path: (entry for _, entries in JsonLists(path, [OUTERMOST]) for entry in entries),
    image_name=lambda entry: next((entry[key] for key in _NAMES if key in entry), None),
    objects=_objects,
)
find, locate, read = _FORMAT.find, _FORMAT.locate, _FORMAT.read
