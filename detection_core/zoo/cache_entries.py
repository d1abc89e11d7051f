"""What stands in the cache: only files are read; anything else could block, never end or lead elsewhere."""

from __future__ import annotations

import os
import stat

from detection_core.errors import ModelError


def is_file(path: str) -> bool:
    """Tell whether there is a file in the cache.

    Raises:
        ModelError: where there is something else, which could block, never end or lead elsewhere.
    """
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
    """Return path and bytes of what lies below a folder; -1 for what is no file."""
    found = {}
    for parent, folders, names in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        for path in (os.path.join(parent, name) for name in (*names, *links)):
            state = os.lstat(path)
            found[os.path.relpath(path, folder)] = state.st_size if stat.S_ISREG(state.st_mode) else -1
    return found
