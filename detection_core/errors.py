"""Errors that users can cause and fix."""

import dataclasses
import errno
import os
import re

from detection_core.redaction import clean

EXIT_DONE, EXIT_USER_ERROR = 0, 2
"""Exit codes: success, or a user error with one message. Python itself exits with 1 after a crash."""


def shorten(value: object, longest: int = 80) -> str:
    """Return a value as text for a message: on one line, truncated to `longest` characters."""
    try:
        text = repr(value)
    except ValueError:  # an integer with more digits than Python converts to text
        text = "a number of thousands of digits"
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text):,} characters)"


def one_line(text: str, longest: int = 80) -> str:
    """Return a user's text for display: one line, no quotation marks, at most `longest` characters."""
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[: longest + 1])
    return shown if len(shown) <= longest else f"{shown[: longest - 3]}..."


_LONGEST_WHERE, _LONGEST_MESSAGE = 1_000, 4_000


def _bounded(text: str, longest: int) -> str:
    """Return a text that is safe to show on a terminal."""
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text):,} characters)"


class DetectionError(Exception):
    """An error that the user can fix: a bad config, record, model or destination.

    The text has three parts: what was expected, what was found and what to do. It is safe to show: secrets
    are masked, and control characters escaped.

    Attributes:
        where: file:line, field path, record id or artifact path of the error; may be empty.
        message: the text without `where`.
    """

    def __init__(self, message: str, *, where: str = "") -> None:
        self.where = _bounded(clean(where), _LONGEST_WHERE)
        self.message = _bounded(clean(message), _LONGEST_MESSAGE)
        super().__init__(f"{self.where}: {self.message}" if where else self.message)


class ConfigError(DetectionError):
    """A settings file, pipeline.config or override that cannot be used."""


class DataError(DetectionError):
    """Annotations, images or records that cannot be used."""


class ModelError(DetectionError):
    """A checkpoint or model that does not fit the request."""


class ExportError(DetectionError):
    """A model that cannot be converted or written."""


class ContractError(DetectionError):
    """An artifact that violates the contract of its type."""


class StorageError(DetectionError):
    """A disk, folder or lock that cannot be read or written."""


_REMEDIES = {
    errno.ENOSPC: "free some space, then run again: what is finished is kept",
    errno.EDQUOT: "free some space or ask for more, then run again: what is finished is kept",
    errno.EROFS: "choose a path that can be written",
    errno.EACCES: "check the owner and the mode of the file and of the folders above it",
    errno.EPERM: "check the owner and the mode of the file and of the folders above it",
    errno.EEXIST: "a file stands where a folder should be; remove it, or choose another path",
    errno.ENOTDIR: "a file stands where a folder should be; remove it, or choose another path",
    errno.EISDIR: "a folder stands where a file should be; remove it, or choose another path",
    errno.ENXIO: "the path is a socket, or a device that does not exist; choose the path of a file",
    errno.ELOOP: "a link leads to itself; remove it",
    errno.ENAMETOOLONG: "name a shorter one",
    errno.EIO: "check the disk; then run again: what is finished is kept",
    errno.ESTALE: "check the network file system; then run again: what is finished is kept",
    errno.EFBIG: "choose a path on another file system, or raise `ulimit -f`",
    errno.EMFILE: "raise `ulimit -n`",
    errno.ENFILE: "raise the system's limit `fs.file-max`, or close other programs",
}
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
# Texts of libraries that do not raise OSError: TensorFlow, Beam, SQLite.
_NUMBERED = re.compile(r"\[Errno (\d+)\]")
_TEXTS = {
    os.strerror(number): number
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ENFILE, errno.EMFILE)
} | {
    "database or disk is full": errno.ENOSPC,
    "disk I/O error": errno.EIO,
    "attempt to write a readonly database": errno.EROFS,
}


def as_user_error(error: BaseException) -> DetectionError | None:
    """Return a disk error as an error with a remedy; None for every other error.

    Args:
        error: an OSError, or a library's error about one.
    """
    number, where = _errno_of(error), getattr(error, "filename", None) or ""
    if number not in _REMEDIES:
        return None
    where = os.fsdecode(where) if isinstance(where, str | bytes) else ""
    detail = "" if isinstance(error, OSError) else f" ({str(error).strip().splitlines()[0][:300]})"
    return StorageError(
        f"expected to read and write there, found: {os.strerror(number)}{detail}; {_REMEDIES[number]}",
        where=where,
    )


def as_read_error(error: BaseException) -> DetectionError | None:
    """Same as `as_user_error` for reading: "too large" then refers to the file, not to the disk."""
    return None if _errno_of(error) == errno.EFBIG else as_user_error(error)


def is_exhausted(error: Exception) -> bool:
    """Return whether the process or system lacks descriptors or memory; the file may then be intact."""
    return _errno_of(error) in _EXHAUSTED


def _errno_of(error: BaseException) -> int:
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    text = str(error)
    numbered = _NUMBERED.search(text)
    if numbered:
        return int(numbered[1])
    return next((number for words, number in _TEXTS.items() if words in text), 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Problem:
    """A problem of one field.

    Attributes:
        path: field path from the root.
        message: what was expected, what was found and what to do.
    """

    path: str
    message: str
