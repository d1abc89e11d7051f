"""Finds COCO JSON files and their image folders, whatever they are called."""

from __future__ import annotations

import json
import posixpath
import re

from detection_core.datasets.formats.annotation_files import AnnotationFile, describe_files
from detection_core.datasets.layouts import Layout, spread
from detection_core.storage.folder_listing import FolderListing

LOOKS_FOR = "COCO JSON: a .json file with the lists images, annotations and categories"

_MOST_FILES = 50
"""JSON files in one folder above which only some are opened: then there is one an image."""

_SAMPLE = 100
_FILE_NAME = re.compile(rb'"file_name"\s*:\s*("(?:[^"\\]++|\\.)*+")')
_USUAL = "instances"
"""What the files of boxes are called, where there are others for the same images."""


def find(listing: FolderListing) -> Layout | None:
    """Find the COCO JSON files in a folder, and where their images are.

    Args:
        listing: of the folder.

    Raises:
        DataError: when there are several files, and no telling which split each is.
    """
    return describe_files(listing, "coco", "COCO JSON", find_files(listing), _USUAL)


def find_files(listing: FolderListing) -> dict[str, AnnotationFile]:
    """Return the COCO JSON files in a folder, each with the names of some of its images."""
    found = {}
    for folder, names in listing.folders.items():
        candidates = [posixpath.join(folder, name) for name in names if name.lower().endswith(".json")]
        if len(candidates) > _MOST_FILES:
            candidates = candidates[:: len(candidates) // 3][:3]
        for path in candidates:
            head, tail = listing.ends(path)
            if is_coco(head, tail):
                found[path] = AnnotationFile(names=_some_names(head + tail))
    return found


def is_coco(head: bytes, tail: bytes) -> bool:
    """Tell whether a file with this beginning and end is COCO JSON with objects."""
    if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return False
    text = head + tail
    # Files of captions name no category, those of panoptic segmentation no object.
    categories = b'"category_id"' in text or b'"categories"' in text
    return b'"images"' in text and categories and b'"segments_info"' not in text and b'"shapes"' not in text


def _some_names(text: bytes) -> list[str]:
    """Return some of the image names in a text, enough to find their folders."""
    quoted = _FILE_NAME.findall(text)
    names = []
    for name in spread(quoted, _SAMPLE):
        try:
            names.append(str(json.loads(name)))
        except ValueError:
            continue
    return names
