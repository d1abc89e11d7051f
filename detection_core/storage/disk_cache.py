"""The base of all caches on this machine: folders of entries that can be recreated."""

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

from detection_core.storage import files

_PARTIAL = ".partial"
_LEFTOVER_SECONDS = 3600
_MOST_JSON_BYTES = 16 << 20


@dataclasses.dataclass(frozen=True)
class Cache:
    """A folder of entries by key, which several processes may share.

    Attributes:
        folder: where the entries are.
        most_bytes: total size above which `shrink` removes the least recently used files.
        newest: number of most recently used files that `shrink` keeps at any size.
    """

    folder: str
    most_bytes: int = sys.maxsize
    newest: int = 0

    def path(self, key: str) -> str:
        """Return the path of an entry, existing or not."""
        return os.path.join(self.folder, key)

    def find(self, key: str) -> str | None:
        """Return the path of an entry and mark it as used; None if missing."""
        path = self.path(key)
        with contextlib.suppress(OSError):  # missing, or in a read-only folder
            os.utime(path)
        return path if os.path.exists(path) else None

    @contextlib.contextmanager
    def add(self, key: str) -> Iterator[str]:
        """Yield a path for a new file, which becomes the entry when the block succeeds.

        The file is not synced: after a power cut an entry may be damaged.
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
        """Return an entry's JSON value; None if missing or damaged."""
        try:
            return json.loads(files.read_regular(self.find(key) or "", _MOST_JSON_BYTES))
        except (OSError, ValueError, RecursionError):
            return None

    def write_json(self, key: str, value: Any) -> None:
        """Add a JSON value and shrink the cache; skip an unwritable folder."""
        with contextlib.suppress(OSError):
            with self.add(key) as path, open(path, "w", encoding="utf-8") as file:
                json.dump(value, file)
            self.shrink()

    @contextlib.contextmanager
    def exclusive(self, key: str) -> Iterator[None]:
        """Lock an entry for one writer; others wait."""
        folder, name = os.path.split(self.path(key))
        files.make_dirs(folder)
        with files.exclusive(os.path.join(folder, f".{name}.lock")):
            yield

    def shrink(self) -> None:
        """Remove the least recently used files, and files of killed processes."""
        now, found = time.time(), []
        for entry in os.scandir(self.folder):
            with contextlib.suppress(FileNotFoundError):
                state = entry.stat()
                if entry.name.endswith(_PARTIAL):
                    if now - state.st_mtime > _LEFTOVER_SECONDS:
                        os.remove(entry.path)
                elif entry.is_file():
                    found.append((state.st_mtime, state.st_size, entry.path))
        total = 0
        for number, (_, size, path) in enumerate(sorted(found, reverse=True)):
            total += size
            if total > self.most_bytes and number >= self.newest:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(path)


def entry_key(*parts: str | bytes) -> str:
    """Return a key that depends on every part."""
    # Processors accelerate SHA-256, and it releases the GIL.
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part)
        digest.update(b"\0")
    return digest.hexdigest()[:32]
