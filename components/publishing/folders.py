"""The files of published versions: layout, creation and removal.

TensorFlow Serving reads `saved_model/`, so a SavedModel is never incomplete there: it is renamed in and out.
An object store has no atomic folder rename. There saved_model.pb is written last and removed first, and a
folder without it is not a SavedModel.
"""

import json
import logging
import os
from collections.abc import Mapping

from detection_core.artifacts.published import (
    IN_SERVICE,
    TFLITE,
    VERSIONS,
    WITHDRAWN,
    PublishedVersion,
    read_version,
    version_file,
    version_numbers,
    versions_among,
)
from detection_core.errors import ContractError, StorageError
from detection_core.storage import files

_logger = logging.getLogger(__name__)

# A version being removed: the request, and the folders to delete.
_REMOVING, _REQUEST = ".removing", "request.json"


class VersionFolders:
    """The folders of a push destination. Changes need its lock."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._expected: dict[int, Mapping[str, int]] = {}

    def path(self, *parts: str | int) -> str:
        """Return a path in the destination."""
        return os.path.join(self.root, *map(str, parts))

    def version_path(self, number: int) -> str:
        """Return the path of a version's file."""
        return self.path(VERSIONS, version_file(number))

    def numbers(self) -> list[int]:
        """Return the sorted numbers of all versions that have a file, even a damaged one."""
        return versions_among(self._names(VERSIONS))

    def newest_number(self) -> int:
        """Return the largest version number in use; 0 if there is none."""
        folders = (IN_SERVICE, WITHDRAWN, TFLITE)
        found = [*self.numbers(), *(n for name in folders for n in version_numbers(self._names(name)))]
        return max(found, default=0)

    def complete(self) -> list[int]:
        """Return the sorted numbers of the versions with a complete SavedModel, in service or not."""
        places = (IN_SERVICE, WITHDRAWN)
        return [n for n in self.numbers() if any(self.is_complete(place, n) for place in places)]

    def is_complete(self, folder: str, number: int) -> bool:
        """Tell whether a version's SavedModel is complete in a folder, `IN_SERVICE` or `WITHDRAWN`."""
        found = files.sizes(self.path(folder, number))
        if not found:
            return False
        if not self._expected.get(number):
            version = self.find(number)
            self._expected[number] = version.files if version else {}
        expected = self._expected[number]
        return bool(expected) and all(found.get(name) == size for name, size in expected.items())

    def read(self, number: int) -> PublishedVersion:
        """Read a version's file.

        Raises:
            FileNotFoundError: when it does not exist.
            ContractError: when it is invalid.
        """
        return read_version(self.version_path(number), number)

    def find(self, number: int) -> PublishedVersion | None:
        """Read a version's file; return None if it does not exist or is invalid."""
        try:
            return self.read(number)
        except (FileNotFoundError, ContractError):
            return None

    def move(self, number: int, *, out: bool) -> None:
        """Take a version's SavedModel out of service, or put it back; do nothing if already done."""
        source, target = (IN_SERVICE, WITHDRAWN) if out else (WITHDRAWN, IN_SERVICE)
        there = self.path(source, number)
        if not files.is_dir(there):
            return
        if self.is_complete(target, number):
            files.remove_tree(there)  # on a store: copied, but the source not yet removed
        elif out or self.is_complete(source, number):
            files.remove_tree(self.path(target, number))
            files.make_dirs(self.path(target))
            files.rename(there, self.path(target, number))

    def remove(self, number: int, *, keep_file: bool = False) -> None:
        """Remove a version: first from the folder that readers use, then from storage.

        With `keep_file` only its models are removed.
        """
        request = json.dumps({"keep_record": keep_file}) + "\n"
        files.write_text(self.path(_REMOVING, number, _REQUEST), request)
        self._finish_removal(number)

    def tidy(self) -> None:
        """Complete interrupted removals, and remove incomplete files of killed writers."""
        for folder in ("", IN_SERVICE, WITHDRAWN, TFLITE, VERSIONS):
            files.remove_leftovers(self.path(folder) if folder else self.root)
        for number in version_numbers(self._names(_REMOVING)):
            self._finish_removal(number)
        known = self.numbers()
        for folder in (TFLITE, WITHDRAWN):
            for number in version_numbers(self._names(folder)):
                if number not in known:
                    files.remove_tree(self.path(folder, number))
        for number in version_numbers(self._names(IN_SERVICE)):
            if number not in known:
                _logger.warning(
                    "push | %s is served, but was not published by detflow", self.path(IN_SERVICE, number)
                )

    def _finish_removal(self, number: int) -> None:
        away = self.path(_REMOVING, number)
        try:
            request = json.loads(files.read_text(os.path.join(away, _REQUEST)))
        except (FileNotFoundError, ValueError):
            request = None  # only deleting the moved folders remains
        if request is not None:
            for name in (IN_SERVICE, WITHDRAWN, TFLITE):
                folder = self.path(name, number)
                if files.is_remote(folder):
                    files.remove_tree(folder)
                elif files.is_dir(folder):
                    files.remove_tree(os.path.join(away, name))
                    files.rename(folder, os.path.join(away, name))
            if not request.get("keep_record"):
                files.remove_tree(self.version_path(number))
        files.remove_tree(away)

    def _names(self, name: str) -> list[str]:
        folder = self.path(name)
        if files.is_dir(folder):
            return files.list_dir(folder)
        # Check again: a concurrent first push may have created the folder.
        if files.exists(folder) and not files.is_dir(folder):
            raise StorageError("expected a folder, found a file; move it away", where=folder)
        return []
