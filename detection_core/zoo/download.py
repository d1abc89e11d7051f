"""Resumable downloads by HTTP range requests (RFC 9110, section 14).

Data is collected in `FILE.part`; `FILE.part.json` records its version. A download is resumed only if the
server identifies the version by a strong ETag or a date. pooch and fsspec are not used: they cannot resume,
and limit neither the size nor the rate of a response.
"""

import base64
import dataclasses
import email.message
import functools
import http.client
import json
import logging
import os
import re
import shutil
import stat
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

from detection_core.errors import StorageError, one_line, shorten
from detection_core.progress import ProgressUpdate, RateMeter, Reporter, TerminalReporter, default_reporter
from detection_core.redaction import clean, hide, hide_credentials
from detection_core.storage import files
from detection_core.zoo.watched_connection import LOWEST_RATE, Unreachable, watched_opener

_logger = logging.getLogger(__name__)

_TIMEOUT_SECONDS = 30
_CHUNK = 1 << 18
_MEGABYTE = 1_000_000
_REPORT_SECONDS = 0.5
_REPORT_SECONDS_IN_LOGS = 10.0
# Temporary errors, worth a retry.
_TEMPORARY = (408, 425, 429, 500, 502, 503, 504)
_REDIRECTS = range(300, 400)
_PARTIAL, _NOT_SATISFIABLE = 206, 416
_NOTE_BYTES = 1 << 14


class _Interrupted(Exception):
    """A transfer that may succeed on a retry."""


class _NoConnection(_Interrupted):
    """No connection. Retried only if the server has answered before."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Patience:
    """Retries: consecutive attempts below the minimum rate, and the first wait, which then doubles."""

    attempts: int = 5
    wait_seconds: float = 1.0


def download(
    address: str,
    path: str,
    *,
    most_bytes: int,
    patience: Patience | None = None,
    progress: Reporter | None = None,
) -> None:
    """Fetch a file, resuming an earlier download.

    The caller must prevent concurrent downloads to the same path.

    Args:
        address: http or https; it may hold a name and a password.
        path: local file to create; its folder exists.
        most_bytes: a larger file is refused, and nothing of it is kept.
        patience: retry settings.
        progress: shows progress; the default depends on where standard error goes.

    Raises:
        Unreachable: when the server does not send the file, or sends more.
        StorageError: when the disk cannot hold it.
    """
    hide_credentials(address)
    patience, part = patience or Patience(), _Part(path, most_bytes)
    failures, most = 0, part.size
    began = most
    while True:
        started = time.monotonic()
        try:
            _transfer(address, part, progress or default_reporter())
            break
        except _Interrupted as error:
            # The minimum rate also applies to a server that breaks off or starts again.
            seconds = time.monotonic() - started + patience.wait_seconds
            failures = 1 if part.size - most > LOWEST_RATE * seconds else failures + 1
            most = max(most, part.size)
            hopeless = isinstance(error, _NoConnection) and most == began
            if hopeless or failures >= patience.attempts:
                raise Unreachable(str(error), where=address) from error
            pause = patience.wait_seconds * 2 ** (failures - 1)
            _logger.warning("%s: %s; trying again in %.3g s", _public(address), error, pause)
            time.sleep(pause)
    part.finish()


class _Part:
    """The received part of a file; anything but a regular file at its path is never opened."""

    def __init__(self, path: str, most_bytes: int) -> None:
        self._path, self.file, self._note = path, f"{path}.part", f"{path}.part.json"
        self.most_bytes = most_bytes

    @property
    def size(self) -> int:
        """Return the number of bytes received."""
        try:
            state = os.lstat(self.file)
        except OSError:
            return 0
        return state.st_size if stat.S_ISREG(state.st_mode) and state.st_size <= self.most_bytes else 0

    def version(self, address: str) -> str:
        """Return the server's validator of the received version; "" if unknown."""
        try:
            note = json.loads(files.read_regular(self._note, _NOTE_BYTES))
            return str(note["version"]) if note["address"] == _public(address) else ""
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return ""

    def discard(self) -> None:
        """Remove the data and its version."""
        files.remove_tree(self._note)
        files.remove_tree(self.file)

    def begin(self, address: str, version: str) -> None:
        """Start a new download."""
        self.discard()
        files.write_text(self._note, json.dumps({"address": _public(address), "version": version}))

    def refuse(self, found: str) -> Unreachable:
        """Remove the data; return the error for a server that sends too much."""
        self.discard()
        return Unreachable(f"expected at most {self.most_bytes:,} bytes, found {found}")

    def finish(self) -> None:
        """Move the complete file to its final path."""
        with open(self.file, "rb") as file:
            os.fsync(file.fileno())
        files.rename(self.file, self._path)
        files.remove_tree(self._note)


def _transfer(address: str, part: _Part, report: Reporter) -> None:
    """Make one request and store the response."""
    done, version = part.size, part.version(address)
    headers = {"User-Agent": "detflow", "Accept-Encoding": "identity"}
    if not (done and version):
        part.discard()
        done = 0
    else:
        headers |= {"Range": f"bytes={done}-", "If-Range": version}
    try:
        response = _opener().open(_request(address, headers), timeout=_TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        _after_refusal(error, address, part, done)
        return
    except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
        raise _NoConnection(_reason(error)) from error
    with response:
        total = _take_up(response, address, part, done)
        if total > part.most_bytes:
            raise part.refuse(f"{total:,}")
        if total:
            _make_room(part, total - part.size)
        _receive(response, part, total, report)


def _request(address: str, headers: dict[str, str]) -> urllib.request.Request:
    """Return a request; credentials in an address are sent to its host only."""
    parts = urllib.parse.urlsplit(address)
    request = urllib.request.Request(_without_password(address), headers=headers)
    if parts.username is not None:
        words = [urllib.parse.unquote(word or "") for word in (parts.username, parts.password)]
        token = base64.b64encode(":".join(words).encode()).decode()
        hide(token)
        request.add_unredirected_header("Authorization", f"Basic {token}")
    return request


def _without_password(address: str) -> str:
    parts = urllib.parse.urlsplit(address)
    return urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _public(address: str) -> str:
    """Return an address for logs and notes: without secrets, but different for different addresses."""
    return clean(_without_password(address))


def _after_refusal(error: urllib.error.HTTPError, address: str, part: _Part, done: int) -> None:
    if error.code == _NOT_SATISFIABLE and done:
        if _range_of(error.headers, address)[1] == done:
            return  # The file was already complete.
        part.begin(address, "")
        raise _Interrupted("the file there is another one than before") from error
    text = one_line(f"the server answers {error.code} {error.reason}".rstrip(), 200)
    if error.code in _REDIRECTS:
        text = "the server leads in circles"
    if error.code in _TEMPORARY:
        raise _Interrupted(text) from error
    raise Unreachable(text, where=address) from error


def _take_up(response: Any, address: str, part: _Part, done: int) -> int:
    """Prepare the part for a response; return the size of the whole file, 0 if unknown."""
    if response.status == _PARTIAL:
        start, total = _range_of(response.headers, address)
        if start == done and _version(response.headers) in ("", part.version(address)):
            return total
        part.begin(address, "")
        raise _Interrupted("the server sends another part, or a part of another version, than was asked for")
    part.begin(address, _version(response.headers))
    length = response.headers.get("Content-Length")
    if length is None:
        return 0
    if not _SIZE.fullmatch(length):
        raise _no_size("Content-Length", length, address)
    return int(length)


def _no_size(header: str, value: str, address: str) -> Unreachable:
    return Unreachable(f"expected sizes in bytes as {header}, found {shorten(value, 60)}", where=address)


def _version(headers: email.message.Message) -> str:
    """Return a validator for If-Range: a strong ETag, or else a date."""
    etag = headers.get("ETag") or ""
    return etag if etag.startswith('"') else headers.get("Last-Modified") or ""


# Python refuses to convert thousands of digits.
_SIZE = re.compile(r"\d{1,18}", re.ASCII)
_CONTENT_RANGE = re.compile(r"bytes (?:(\d{1,18})-\d{1,18}|\*)/(\d{1,18}|\*)", re.ASCII)


def _range_of(headers: email.message.Message, address: str) -> tuple[int, int]:
    """Return a range's start (else -1) and the whole size (else 0); raise Unreachable if invalid."""
    value = headers.get("Content-Range")
    if value is None:
        return -1, 0
    match = _CONTENT_RANGE.fullmatch(value)
    if match is None:
        raise _no_size("Content-Range", value, address)
    return int(match[1] or -1), int(match[2]) if match[2] != "*" else 0


def _make_room(part: _Part, needed: int) -> None:
    """Refuse a file that does not fit on the disk, before the disk is full."""
    free = shutil.disk_usage(os.path.dirname(part.file) or ".").free
    if needed > free:
        raise StorageError(
            f"expected {needed / _MEGABYTE:,.0f} MB of free space, found {free / _MEGABYTE:,.0f};"
            " free some, or name another folder by DETFLOW_CACHE",
            where=part.file,
        )


def _receive(response: Any, part: _Part, total: int, report: Reporter) -> None:
    meter, shown = RateMeter(), time.monotonic()
    every = _REPORT_SECONDS if isinstance(report, TerminalReporter) else _REPORT_SECONDS_IN_LOGS
    done = part.size
    meter.mark(done)
    most = total or part.most_bytes
    with open(part.file, "ab") as file:
        for chunk in _chunks(response):
            done += len(chunk)
            if done > most:
                raise part.refuse(f"that the server sends more than {most:,}")
            file.write(chunk)
            if time.monotonic() - shown >= every or done == total:
                shown = time.monotonic()
                report(_update(done, total, meter.mark(done)))
    if total and done < total:
        raise _Interrupted(f"the connection broke after {done:,} of {total:,} bytes")


def _chunks(response: Any) -> Iterator[bytes]:
    while True:
        try:
            # read() would wait for the whole chunk, however slowly it arrives.
            chunk = response.read1(_CHUNK)
        except (http.client.HTTPException, OSError) as error:
            raise _Interrupted(_reason(error)) from error
        if not chunk:
            return
        yield chunk


def _update(done: int, total: int, rate: float) -> ProgressUpdate:
    return ProgressUpdate(
        job="download",
        done=-(-done // _MEGABYTE),
        total=-(-total // _MEGABYTE),
        unit="megabyte",
        rate=rate / _MEGABYTE,
    )


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None) or error
    text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return f"the connection fails ({one_line(text, 200)})"


@functools.cache
def _opener() -> urllib.request.OpenerDirector:
    return watched_opener()
