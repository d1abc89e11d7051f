"""Read whole text files, and parse JSON at once."""

from __future__ import annotations

import errno
import json
from typing import Any

from detection_core.bounded.limits import MAX_JSON_VALUES, MAX_LINES, MAX_LIST_BYTES, MAX_TEXT_BYTES
from detection_core.errors import ConfigError, DataError
from detection_core.storage import files


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
