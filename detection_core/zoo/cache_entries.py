"""Files in the cache of weights: types, sizes and checksums.

Only regular files are read: others could block, never end or lead elsewhere.
"""

import hashlib
import os
import stat
import time

from detection_core.errors import ModelError
from detection_core.storage.disk_cache import Cache, entry_key

_FOLDER, _KEPT = "digests", 2_000
# Two writes within one tick of a file system's clock leave the same times.
_SETTLED_NS = 2_000_000_000


def is_file(path: str) -> bool:
    """Tell whether there is a file in the cache; ModelError for a path that is not a regular file."""
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    if stat.S_ISREG(mode):
        return True
    kinds = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe"}
    raise ModelError(
        f"expected a file in the cache, found {kinds.get(stat.S_IFMT(mode), 'a device or a socket')}; remove"
        " it, or put the file itself there",
        where=path,
    )


def sizes(folder: str) -> dict[str, int]:
    """Return path and bytes of all entries below a folder; -1 for entries that are not regular files."""
    found = {}
    for parent, folders, names in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        for path in (os.path.join(parent, name) for name in (*names, *links)):
            state = os.lstat(path)
            found[os.path.relpath(path, folder)] = state.st_size if stat.S_ISREG(state.st_mode) else -1
    return found


def file_digest(root: str, path: str, kind: str = "sha256") -> str:
    """Return a file's hexadecimal checksum, from `digests` in a folder above it if it is known.

    A known checksum is used only if the file's size, times, device and inode are unchanged. These include the
    change time (ctime), which moves with the content and which no program can set back.

    Args:
        root: folder with `digests`; it may be read-only.
        path: of the file, below the folder.
        kind: algorithm, as `hashlib` names it.
    """
    state, cache = _state(path), Cache(os.path.join(root, _FOLDER), 0, _KEPT)
    key = entry_key(os.path.relpath(path, root), kind, *map(str, state))
    known = cache.read_json(key)
    if isinstance(known, str):
        return known
    with open(path, "rb") as stream:
        found = hashlib.file_digest(stream, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()
    if _state(path) == state and time.time_ns() - max(state[1:3]) > _SETTLED_NS:
        cache.write_json(key, found)
    return found


def _state(path: str) -> list[int]:
    state = os.stat(path)
    return [state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino, state.st_dev]
