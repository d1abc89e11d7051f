"""Long texts as parameters: packed where they would fill Argo's Workflow of a run.

A packed text begins with `bz2:`; what follows is base64. bzip2 has one implementation, whose output does not
change from one machine to the next, as that of zlib does: equal texts stay equal parameters, which the cache
goes by.
"""

from __future__ import annotations

import base64
import bz2

# Shorter texts are not packed, so that they stay readable in packages and runs.
PLAIN_BYTES = 8 * 1024
_MARK = "bz2:"


def pack(text: str) -> str:
    """Return a text that `unpack` turns back; a short one as it is."""
    if len(text.encode()) <= PLAIN_BYTES and not text.startswith(_MARK):
        return text
    return _MARK + base64.b64encode(bz2.compress(text.encode())).decode()


def unpack(text: str) -> str:
    """Return the text that `pack` was given.

    Raises:
        ValueError: for a packed text that is broken.
    """
    if not text.startswith(_MARK):
        return text
    try:
        return bz2.decompress(base64.b64decode(text.removeprefix(_MARK), validate=True)).decode()
    except (ValueError, OSError, EOFError) as e:
        raise ValueError(f"not a packed text ({e})") from e
