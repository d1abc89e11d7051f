"""Find what `detflow predict` reads: files, folders, patterns, lists, standard input and cameras."""

import os
import re
import sys
from collections.abc import Iterable, Mapping

from detection_core.artifacts.prediction import VIDEO_ENDINGS
from detection_core.datasets.image_parts import read_list
from detection_core.datasets.layouts import IMAGE_SUFFIXES
from detection_core.errors import DataError
from detection_core.storage import files
from detection_core.storage.folder_listing import list_folder

STDIN = "-"
_LIST = ".txt"
_ENDINGS = (*IMAGE_SUFFIXES, *VIDEO_ENDINGS)
_PATTERN = re.compile(r"[*?\[]")


def find_inputs(given: Iterable[str], output_dir: str) -> dict[str, str]:
    """Return the path of each image, video and camera, with the name of its results.

    The name of a file in a given folder is relative to the folder, that of any other file has no folder.

    Args:
        given: files, folders (with all below them), patterns, lists of these (.txt, a path a line, relative
            to the current folder), or "-" for a list on standard input.
        output_dir: folder of the results, which is left out of folders.

    Raises:
        DataError: if a folder or pattern has no image and no video, or a list is empty or unreadable.
    """
    found: dict[str, str] = {}
    for entry in given:
        paths = [entry]
        if entry == STDIN or entry.lower().endswith(_LIST):
            lines = (line.strip() for line in (sys.stdin if entry == STDIN else read_list(entry)))
            paths = list(filter(None, lines))
            if not paths:
                raise DataError(
                    "expected a list of images and videos, a path a line, found none", where=entry
                )
        for path in paths:
            found |= _find(path, output_dir)
    return found


def _find(path: str, output_dir: str) -> dict[str, str]:
    is_pattern = _PATTERN.search(path) and not (files.is_dir(path) or files.exists(path))
    found: dict[str, str] = {}
    for match in files.glob(path) if is_pattern else [path]:
        if files.is_dir(match):
            found |= _files_below(match, output_dir)
        elif not is_pattern or match.lower().endswith(_ENDINGS):
            found[match] = os.path.basename(match)
    if not found:
        raise DataError("expected images or videos, found none; check the folder or pattern", where=path)
    return found


def _files_below(folder: str, output_dir: str) -> dict[str, str]:
    """Return the images and videos below a folder by path, except results of an earlier prediction."""
    listing = list_folder(folder)
    results = real_path(output_dir).removeprefix(f"{real_path(folder)}/")
    names = sorted(listing.paths(*_ENDINGS))
    return {listing.path(name): name for name in names if not name.startswith(f"{results}/")}


def real_path(folder: str) -> str:
    """Return the one path of a folder that has several, such as by links."""
    return folder.rstrip("/") if files.is_remote(folder) else os.path.realpath(folder)


def unique_stems(names: Mapping[str, str], kept: Mapping[str, str]) -> dict[str, str]:
    """Return the path without suffix, relative to the output folder, of the results of each input.

    Args:
        names: of `find_inputs`.
        kept: input to stem in an interrupted run; these inputs keep their stem.
    """
    stems = {path: kept[path] for path in names if path in kept}
    taken = set(stems.values())
    for path, name in names.items():
        wanted = stem = os.path.splitext(name)[0]
        number = 1
        while path not in stems and stem in taken:
            number += 1
            stem = f"{wanted}-{number}"
        taken.add(stems.setdefault(path, stem))
    return {path: stems[path] for path in names}
