"""Finds out which data sets a folder holds, by looking at names and at the beginnings of files."""

from __future__ import annotations

from detection_core.datasets.layouts import Layout, count_kinds, is_image, list_data_set
from detection_core.datasets.readers import READERS
from detection_core.errors import DataError
from detection_core.storage.folder_listing import FolderListing


def find_layouts(root: str) -> list[Layout]:
    """Return the data sets in a folder, the best first.

    A set of fewer than half the images of the largest comes behind the others; among equals the order of
    `readers.READERS` decides.

    Args:
        root: local or on an object store.

    Raises:
        DataError: when there is no such folder, or no data set in it that is told apart; `describe_search`
            is in the message.
    """
    listing = list_data_set(root, bounded=True)
    found: list[Layout] = []
    failures: list[str] = []
    for reader in READERS.values():
        try:
            layout = reader.find(listing)
        except DataError as e:
            failures.append(str(e))
            continue
        if layout:
            found.append(layout)
    if not found:
        reasons = "".join(f" {failure}." for failure in failures)
        raise DataError(f"expected an annotated data set.{reasons} {_describe(listing)}", where=root)
    most = max(layout.images for layout in found)
    return sorted(found, key=lambda layout: 2 * layout.images < most)


def find_layout(root: str) -> Layout:
    """Return the best data set in a folder.

    Raises:
        DataError: as `find_layouts` does.
    """
    return find_layouts(root)[0]


def describe_search(root: str) -> str:
    """Say what is looked for in a folder, and what is there.

    Raises:
        DataError: when there is no such folder.
    """
    return _describe(list_data_set(root, bounded=True))


def _describe(listing: FolderListing) -> str:
    wanted = "; ".join(reader.looks_for for reader in READERS.values() if reader.looks_for)
    images = sum(1 for path in listing.paths() if is_image(path))
    alone = f"; {images} images without annotations, which `detflow predict` takes" if images else ""
    partly = "" if listing.complete else " (not all of it was looked at)"
    return f"Looked for {wanted}. Found {count_kinds(listing)}{partly}{alone}"
