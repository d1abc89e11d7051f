"""The pictures of an evaluation as whoever shows them finds them: an index, and JPEG files beside it."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
from typing import Any

from detection_core.storage import files

_logger = logging.getLogger(__name__)

FOLDER, INDEX = "pictures", "index.json"
_MAX_BYTES = 1 << 26
_JPEG = b"\xff\xd8\xff"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PictureFile:
    """An entry of the index.

    Attributes:
        kind: what it is a picture of: `side_by_side`, `false_positive` or `miss`.
        caption: what is to be seen.
        source_id: id of the image.
        path: of the JPEG file.
    """

    kind: str
    caption: str
    source_id: str
    path: str

    def read(self) -> bytes:
        """Return the file, empty where it is no JPEG file: it goes into a page that is sent around."""
        try:
            data = files.read_regular(self.path, _MAX_BYTES)
        except OSError:
            return b""
        return data if data.startswith(_JPEG) else b""


def list_pictures(evaluation_dir: str) -> list[PictureFile]:
    """Return what the index of an evaluation names, without what lies outside its folder.

    Args:
        evaluation_dir: has `pictures/index.json`, or no pictures.
    """
    folder = files.join(evaluation_dir, FOLDER)
    path = files.join(folder, INDEX)
    if not files.exists(path):
        return []
    try:
        entries: Any = json.loads(files.read_text(path))
    except (ValueError, RecursionError) as error:
        _logger.warning("%s is left out: %s", path, error)
        return []
    found = []
    for entry in entries if isinstance(entries, list) else []:
        name = str(entry.get("file", "")) if isinstance(entry, dict) else ""
        if not name or name.startswith(".") or os.path.basename(name) != name or "\0" in name:
            _logger.warning("%s: the picture %r is left out: it is no file of this folder", path, name)
            continue
        texts = {key: str(entry.get(key, "")) for key in ("kind", "caption", "source_id")}
        found.append(PictureFile(path=files.join(folder, name), **texts))
    return found
