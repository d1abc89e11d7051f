"""Files that are overwritten only if nobody changed them.

A hidden list beside them holds the SHA-256 of the written content. It includes the new content before the
first file is replaced, and drops the old one after the last. So all files stay known if the process is killed
in between.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from detection_core.errors import ConfigError
from detection_core.storage import files

RECORD = ".detflow-init.json"
_FORMAT = 1
_LONGEST = 1 << 20


def write_unchanged(folder: str, contents: Mapping[str, bytes]) -> None:
    """Write all files into a folder, or none.

    A missing folder is created.

    Raises:
        ConfigError: naming existing files that differ from the written ones.
    """
    if files.is_remote(folder):
        raise ConfigError(
            "expected a folder on this machine, found an object store's; name another with -o and copy it",
            where=folder,
        )
    known = _read_record(folder)
    changed = [name for name in contents if not _is_known(os.path.join(folder, name), known.get(name, ()))]
    if changed:
        raise ConfigError(
            f"expected no file, or one as `detflow init` wrote it, found {', '.join(changed)}, changed"
            " since, or written by others; nothing was written: name another folder with -o, or move"
            " these files",
            where=folder,
        )
    new = {name: [_digest(content)] for name, content in contents.items()}
    if not os.path.lexists(folder):
        with files.atomic_dir(folder) as temporary:
            for name, content in contents.items():
                files.write_bytes(os.path.join(temporary, name), content)
            files.write_text(os.path.join(temporary, RECORD), _format_record(new))
        return
    both = {name: sorted({*known.get(name, ()), *new.get(name, ())}) for name in known | new}
    files.write_text(os.path.join(folder, RECORD), _format_record(both))
    for name, content in contents.items():
        files.write_bytes(os.path.join(folder, name), content)
    files.write_text(os.path.join(folder, RECORD), _format_record(known | new))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _is_known(path: str, digests: Any) -> bool:
    """Tell whether a file may be replaced: it does not exist, or was written here."""
    if not os.path.lexists(path):
        return True
    try:
        return not os.path.islink(path) and _digest(files.read_regular(path, 1 << 30)) in digests
    except OSError:
        return False


def _read_record(folder: str) -> dict[str, list[str]]:
    """Return file name to its known digests; empty for a damaged list."""
    try:
        content = json.loads(files.read_regular(os.path.join(folder, RECORD), _LONGEST))
        return {str(name): list(map(str, digests)) for name, digests in content["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _format_record(digests: Mapping[str, list[str]]) -> str:
    return json.dumps({"format": _FORMAT, "files": dict(sorted(digests.items()))}, indent=1) + "\n"
