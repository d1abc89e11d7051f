"""Checksums of large files, computed again only when a file may have changed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from typing import Any

from detection_core.storage import files

_FILE = "digests.json"
_MOST_BYTES = 16 << 20  # some fifty thousand files
# A file that is written twice within one tick of a file system's clock has the same times after both.
_SETTLED_NS = 2_000_000_000


def file_digest(root: str, path: str, kind: str = "sha256") -> str:
    """Return a checksum of a file, from `digests.json` in a folder above it where that knows the file.

    The file's size, times, device and inode have to be what they were. The time of its last change of state
    is one of them: it moves with the content, and no program can set it back.

    Args:
        root: folder with `digests.json`; it may be read-only.
        path: of the file, below the folder.
        kind: algorithm, as `hashlib` names it.

    Returns:
        Hexadecimal digits.
    """
    name, state, known = os.path.relpath(path, root), _state(path), _read(root)
    entry = known.get(name)
    if not isinstance(entry, dict) or entry.get("state") != state:
        entry = {"state": state}
    if isinstance(entry.get(kind), str):
        return str(entry[kind])
    with open(path, "rb") as stream:
        found = hashlib.file_digest(stream, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()
    if _state(path) == state and time.time_ns() - max(state[1:3]) > _SETTLED_NS:
        _write(root, known | {name: entry | {kind: found}})
    return found


def _state(path: str) -> list[int]:
    state = os.stat(path)
    return [state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino, state.st_dev]


def _read(root: str) -> dict[str, Any]:
    try:
        known = json.loads(files.read_regular(os.path.join(root, _FILE), _MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return known if isinstance(known, dict) else {}


def _write(root: str, known: dict[str, Any]) -> None:
    there = {name: entry for name, entry in known.items() if os.path.exists(os.path.join(root, name))}
    with contextlib.suppress(OSError):  # a cache that is only read: computed each time
        files.write_text(os.path.join(root, _FILE), json.dumps(there, indent=1) + "\n")
