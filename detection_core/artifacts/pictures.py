"""Pictures of an evaluation or a data set: an index and its JPEG files."""

import dataclasses
import logging
import os

from detection_core.artifacts.json_file import JsonLines
from detection_core.storage import files

_logger = logging.getLogger(__name__)

FOLDER = "pictures"
SIDE_BY_SIDE, FALSE_POSITIVE, MISS = "side_by_side", "false_positive", "miss"
SAMPLE, SMALLEST = "sample", "smallest"
"""Kinds of data set pictures: an image with an object of the class in its caption, and a small box."""

KINDS = (SIDE_BY_SIDE, FALSE_POSITIVE, MISS)
_MAX_BYTES = 1 << 26
_JPEG = b"\xff\xd8\xff"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PictureEntry:
    """An entry of the index.

    Attributes:
        kind: one of `KINDS`, `SAMPLE` or `SMALLEST`.
        source_id: id of the image.
        caption: description of the picture.
        file: name of the JPEG file beside the index.
    """

    kind: str = ""
    source_id: str = ""
    caption: str = ""
    file: str

    def read(self) -> bytes:
        """Return a listed picture's bytes; empty if it is not a JPEG, because a shared page embeds it."""
        try:
            data = files.read_regular(self.file, _MAX_BYTES)
        except OSError:
            return b""
        return data if data.startswith(_JPEG) else b""


PICTURES = JsonLines(
    name="index.jsonl", content=PictureEntry, writer="an evaluation", remedy="remove this line"
)


def list_pictures(evaluation_dir: str) -> list[PictureEntry]:
    """Return the pictures in `pictures/index.jsonl`, except those outside its folder; empty if missing.

    The `file` of each is its whole path.
    """
    folder = files.join(evaluation_dir, FOLDER)
    found = []
    for picture in PICTURES.read_whole_lines(folder):
        name = picture.file
        if not name or name.startswith(".") or os.path.basename(name) != name or "\0" in name:
            _logger.warning(
                "%s: the picture %r is left out: it is no file of this folder", PICTURES.path(folder), name
            )
            continue
        found.append(dataclasses.replace(picture, file=files.join(folder, name)))
    return found
