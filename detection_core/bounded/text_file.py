"""Read whole text files and parse JSON at once, within limits that all readers of text share.

A few bytes can request more memory than a machine has, so sizes and counts are checked before use.
`data.image_header.MAX_PIXELS` limits pixels, `data.label_map.MAX_CLASS_ID` class ids.
"""

from __future__ import annotations

import errno
import json
from typing import Any

from detection_core.errors import ConfigError, DataError
from detection_core.storage import files

MAX_TEXT_BYTES = 1 << 22
"""Bytes of a text file that is read whole; files of data sets are read in pieces and may be longer."""

MAX_LONG_TEXT_BYTES = 1 << 24
"""Bytes of a text file with an entry per class or object: a label map, the annotations of an image."""

MAX_DEPTH = 50
"""Nesting depth of YAML lists and mappings."""

MAX_VALUES = 200_000
"""Values of a YAML document; each alias counts the values that it repeats."""

MAX_JSON_VALUES = 1 << 22
"""Values of JSON that is parsed at once; each takes up to a hundred bytes."""

MAX_OBJECTS = 100_000
"""Annotations of one image: ten times those of the densest aerial images."""

MAX_KEYPOINTS = 1_000
"""Keypoints of a class; a whole body has 133."""

MAX_IMAGE_FILE_BYTES = 1 << 27
"""Bytes of one image's annotations; LabelMe includes the image itself."""

MAX_LIST_BYTES = 1 << 27
"""Bytes of a list with a line per image, enough for two million."""

MAX_LINES = 1 << 22
"""Lines of a list that is read whole."""

MAX_ELEMENTS = 1 << 19
"""XML elements below one that is read as a whole."""

MAX_REJECTED = 200_000
"""Unusable annotations after which reading a file stops."""


def read_text_file(path: str, *, what: str, longest: int = MAX_TEXT_BYTES) -> str:
    """Read a text file of at most `longest` bytes; errors call it `what`, such as "pipeline.config".

    Raises:
        ConfigError: when the file is missing, unreadable, not a regular file, too large or not text.
    """
    try:
        with files.open_regular(path, longest) as file:
            found = file.read(longest + 1)
            if len(found) > longest:
                raise OSError(errno.EFBIG, f"expected at most {longest:,} bytes, found more", path)
        text = found.decode("utf-8-sig")
        if "\0" in text:
            raise ConfigError(f"expected a {what} in text format, found null characters", where=path)
        return text
    except ConfigError:
        raise
    except UnicodeDecodeError as error:
        message = f"expected a {what} in text format, found bytes that are not UTF-8 text"
        raise ConfigError(message, where=path) from error
    except Exception as error:  # Clients of stores raise errors of any class.
        if not isinstance(error, OSError | ValueError) and not files.is_remote(path):
            raise
        raise ConfigError(_explained(error, what), where=path) from error


def read_lines(path: str, *, what: str) -> list[str]:
    """Read the lines of a file that lists the images of a data set; errors call the file `what`.

    Raises:
        DataError: where `read_text_file` raises a ConfigError, and for too many lines.
    """
    try:
        text = read_text_file(path, what=what, longest=MAX_LIST_BYTES)
    except ConfigError as error:
        raise DataError(error.message, where=path) from error
    count = text.count("\n") + text.count("\r")
    if count > MAX_LINES:
        raise DataError(f"expected a {what} of at most {MAX_LINES:,} lines, found {count:,}", where=path)
    return text.splitlines()


def _explained(error: Exception, what: str) -> str:
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.EINVAL:
        return f"expected a {what}, found no regular file; check the path"
    if number == errno.EFBIG and isinstance(error, OSError):
        return f"{str(error.strerror).replace('at most', f'a {what} of at most', 1)}; check the path"
    return f"cannot read the {what} ({error}); check the path"


_BEGINS = ("[", "{", ",")


def parse_json_text(text: str) -> Any:
    """Parse a JSON text.

    Raises:
        ValueError: when it cannot be parsed, is nested too deeply, or holds too many values.
    """
    check_values(text)
    try:
        return json.loads(text)
    except RecursionError as e:
        raise ValueError("lists or objects nested too deeply") from e


def check_values(text: str) -> None:
    """Refuse a text that may hold more values than `MAX_JSON_VALUES`, before it is parsed.

    Separators inside strings count, too; they are usually few.

    Raises:
        ValueError: when it may hold more.
    """
    count = sum(map(text.count, _BEGINS))
    if count > MAX_JSON_VALUES:
        raise ValueError(f"expected at most {MAX_JSON_VALUES:,} values, found about {count:,}")
