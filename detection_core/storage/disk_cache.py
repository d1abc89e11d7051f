"""Folders of entries that can be made again: what all caches on this machine have in common."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import sys
import time
import uuid
from collections.abc import Iterator
from typing import Any

from detection_core.errors import ConfigError
from detection_core.storage import files

_PARTIAL = ".partial"
_LEFTOVER_SECONDS = 3600
_MOST_JSON_BYTES = 16 << 20


@dataclasses.dataclass(frozen=True)
class Cache:
    """A folder of entries, named by keys. Processes may share it.

    Attributes:
        folder: where the entries are.
        most_bytes: size of all files above which `shrink` removes those that were used longest ago.
        newest: so many files stay whatever their size.
        spread: over folders named by the keys' first two characters: one of a million files is slow to list.
    """

    folder: str
    most_bytes: int = sys.maxsize
    newest: int = 0
    spread: bool = False

    def path(self, key: str) -> str:
        """Return the path of an entry, which may be missing."""
        return os.path.join(self.folder, key[:2] if self.spread else "", key)

    def find(self, key: str) -> str | None:
        """Return the path of an entry, which counts as used now; None where it is missing."""
        path = self.path(key)
        with contextlib.suppress(OSError):  # missing, or in a folder that is read-only
            os.utime(path)
        return path if os.path.exists(path) else None

    @contextlib.contextmanager
    def add(self, key: str) -> Iterator[str]:
        """Yield a path for a new file. It becomes the entry when the block ends without an error.

        Nothing waits for the disk: after a power cut an entry may be damaged.
        """
        path = self.path(key)
        partial = f"{path}.{uuid.uuid4().hex[:8]}{_PARTIAL}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            yield partial
            os.replace(partial, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.remove(partial)

    def read_json(self, key: str) -> Any:
        """Return the JSON value that an entry holds; None where it is missing or damaged."""
        try:
            return json.loads(files.read_regular(self.find(key) or "", _MOST_JSON_BYTES))
        except (OSError, ValueError, RecursionError):
            return None

    def write_json(self, key: str, value: Any) -> None:
        """Add a JSON value and shrink the cache; a folder that cannot be written keeps nothing."""
        with contextlib.suppress(OSError):
            with self.add(key) as path, open(path, "w", encoding="utf-8") as file:
                json.dump(value, file)
            self.shrink()

    @contextlib.contextmanager
    def exclusive(self, key: str) -> Iterator[None]:
        """Hold an entry for one writer at a time; others wait."""
        folder, name = os.path.split(self.path(key))
        files.make_dirs(folder)
        with files.exclusive(os.path.join(folder, f".{name}.lock")):
            yield

    def measure(self) -> int:
        """Return the bytes of all files, and remove what killed processes left."""
        return sum(size for _, size, _ in self._files())

    def shrink(self) -> None:
        """Remove the files that were used longest ago, and what killed processes left."""
        total = 0
        for number, (_, size, path) in enumerate(sorted(self._files(), reverse=True)):
            total += size
            if total > self.most_bytes and number >= self.newest:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(path)

    def _files(self) -> Iterator[tuple[float, int, str]]:
        """Yield time of use, size and path of each file."""
        now = time.time()
        folders = [self.folder, *(e.path for e in os.scandir(self.folder) if self.spread and e.is_dir())]
        for entry in (entry for folder in folders for entry in os.scandir(folder)):
            with contextlib.suppress(FileNotFoundError):
                state = entry.stat()
                if entry.name.endswith(_PARTIAL) and now - state.st_mtime > _LEFTOVER_SECONDS:
                    os.remove(entry.path)
                elif entry.is_file() and not entry.name.endswith(_PARTIAL):
                    yield state.st_mtime, state.st_size, entry.path


def entry_key(*parts: str | bytes) -> str:
    """Return a key that changes with each part."""
    # Processors have instructions for this one, and it lets other threads go on.
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part)
        digest.update(b"\0")
    return digest.hexdigest()[:32]


def gigabytes_of(variable: str, default: str) -> float:
    """Return the gigabytes that a variable of the environment says.

    Raises:
        ConfigError: for what is no number.
    """
    text = os.environ.get(variable) or default
    try:
        return float(text)
    except ValueError as e:
        raise ConfigError(f"expected a number of gigabytes, found {text!r}", where=variable) from e
