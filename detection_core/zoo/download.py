"""Downloads that go on where they stopped: HTTP range requests, as RFC 9110 (section 14) has them.

What arrives is collected in `FILE.part`; `FILE.part.json` says of which version it is. Only a version that
the server can tell from others, by a strong ETag or a date, is gone on with.
"""

from __future__ import annotations

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
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import IO, Any

from detection_core.errors import ModelError, StorageError
from detection_core.progress import ProgressUpdate, RateMeter, Reporter, TerminalReporter, default_reporter
from detection_core.storage import files

_logger = logging.getLogger(__name__)

MOST_BYTES = 2 << 30
"""More than this is not taken for weights."""
_TIMEOUT_SECONDS = 30
_CHUNK = 1 << 18
_MEGABYTE = 1_000_000
_REPORT_SECONDS = 0.5
_REPORT_SECONDS_IN_LOGS = 10.0
# Answers that may be another one in a while.
_TEMPORARY = (408, 425, 429, 500, 502, 503, 504)
_REDIRECTS = range(300, 400)
_PARTIAL, _NOT_SATISFIABLE = 206, 416


class Unreachable(ModelError):
    """A file that cannot be fetched; the message says why, without a remedy."""


class _Interrupted(Exception):
    """A transfer that may succeed when it is tried again."""


class _NoConnection(_Interrupted):
    """Nobody answers; worth a second try only after somebody did."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a server is asked.

    Attributes:
        attempts: in a row without a single new byte, after which it is given up.
        wait_seconds: before the second attempt; it doubles with each.
    """

    attempts: int = 5
    wait_seconds: float = 1.0


def download(
    address: str, path: str, *, patience: Patience | None = None, progress: Reporter | None = None
) -> None:
    """Fetch a file, going on with what an earlier call has left.

    The caller sees to it that nobody else fetches to the same path.

    Args:
        address: http or https; it may hold a name and a password.
        path: local file to make; its folder exists.
        patience: how often an attempt that failed is repeated.
        progress: what shows progress; chosen by where standard error goes when not given.

    Raises:
        Unreachable: when the server does not give it.
        StorageError: when the disk cannot hold it.
    """
    patience, part = patience or Patience(), _Part(path)
    failures, began = 0, part.size
    while True:
        before = part.size
        try:
            _transfer(address, part, progress or default_reporter())
            break
        except _Interrupted as error:
            failures = 1 if part.size > before else failures + 1
            hopeless = isinstance(error, _NoConnection) and part.size == began
            if hopeless or failures >= patience.attempts:
                raise Unreachable(str(error), where=address) from error
            pause = patience.wait_seconds * 2 ** (failures - 1)
            where = _without_password(address)
            _logger.warning("%s: %s; trying again in %.3g s", where, error, pause)
            time.sleep(pause)
    part.finish()


class _Part:
    """What has arrived of a file."""

    def __init__(self, path: str) -> None:
        self._path, self.file, self._note = path, f"{path}.part", f"{path}.part.json"

    @property
    def size(self) -> int:
        """Bytes that have arrived."""
        return os.path.getsize(self.file) if os.path.isfile(self.file) else 0

    def version(self, address: str) -> str:
        """Return what the server calls the version that has arrived; "" where it is not known."""
        try:
            note = json.loads(files.read_text(self._note))
            return str(note["version"]) if note["address"] == _without_password(address) else ""
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    def begin(self, address: str, version: str) -> None:
        """Start from nothing."""
        files.remove_tree(self._note)
        files.remove_tree(self.file)
        files.write_text(self._note, json.dumps({"address": _without_password(address), "version": version}))

    def finish(self) -> None:
        """Let the file appear under its name."""
        with open(self.file, "rb") as file:
            os.fsync(file.fileno())
        files.rename(self.file, self._path)
        files.remove_tree(self._note)


def _transfer(address: str, part: _Part, report: Reporter) -> None:
    """Make one request and take what comes."""
    done, version = part.size, part.version(address)
    headers = {"User-Agent": "detflow", "Accept-Encoding": "identity"}
    if done and version:
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
        if total:
            _make_room(part, total - part.size)
        _receive(response, part, total, report)


def _request(address: str, headers: dict[str, str]) -> urllib.request.Request:
    """Return a request; name and password in an address go to its own host and to no other one."""
    parts = urllib.parse.urlsplit(address)
    request = urllib.request.Request(_without_password(address), headers=headers)
    if parts.username is not None:
        words = [urllib.parse.unquote(word or "") for word in (parts.username, parts.password)]
        token = base64.b64encode(":".join(words).encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {token}")
    return request


def _without_password(address: str) -> str:
    parts = urllib.parse.urlsplit(address)
    return urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _after_refusal(error: urllib.error.HTTPError, address: str, part: _Part, done: int) -> None:
    if error.code == _NOT_SATISFIABLE and done:
        if _total_of_range(error.headers) == done:
            return  # All of it had arrived.
        part.begin(address, "")
        raise _Interrupted("the file there is another one than before") from error
    text = f"the server answers {error.code} {error.reason}".rstrip()
    if error.code in _REDIRECTS:
        text = "the server leads in circles"
    if error.code in _TEMPORARY:
        raise _Interrupted(text) from error
    raise Unreachable(text, where=address) from error


def _take_up(response: Any, address: str, part: _Part, done: int) -> int:
    """Prepare for what a response brings; return the size of the whole file, 0 where it is not known."""
    if response.status == _PARTIAL:
        start, total = _range_of(response.headers)
        if start == done and _version(response.headers) in ("", part.version(address)):
            return _checked_total(total, address)
        part.begin(address, "")
        raise _Interrupted("the server sends another part, or a part of another version, than was asked for")
    part.begin(address, _version(response.headers))
    length = response.headers.get("Content-Length") or ""
    return _checked_total(int(length) if length.isascii() and length.isdigit() else 0, address)


def _checked_total(total: int, address: str) -> int:
    if total > MOST_BYTES:
        raise Unreachable(f"expected at most {MOST_BYTES:,} bytes, found {total:,}", where=address)
    return total


def _version(headers: email.message.Message) -> str:
    """Return a validator for If-Range: a strong ETag, or else a date."""
    etag = headers.get("ETag") or ""
    return etag if etag.startswith('"') else headers.get("Last-Modified") or ""


_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)", re.ASCII)


def _range_of(headers: email.message.Message) -> tuple[int, int]:
    """Return where a part begins, -1 where that is not said, and the size of the whole, 0 likewise."""
    match = _CONTENT_RANGE.fullmatch(headers.get("Content-Range") or "")
    if match is None:
        return -1, 0
    return int(match[1] or -1), int(match[2]) if match[2] != "*" else 0


def _total_of_range(headers: email.message.Message) -> int:
    return _range_of(headers)[1]


def _make_room(part: _Part, needed: int) -> None:
    """Refuse what the disk cannot hold before it is full."""
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
    with open(part.file, "ab") as file:
        for chunk in _chunks(response):
            file.write(chunk)
            done += len(chunk)
            if done > (total or MOST_BYTES):
                raise Unreachable(f"the server sends more than {total or MOST_BYTES:,} bytes")
            if time.monotonic() - shown >= every or done == total:
                shown = time.monotonic()
                report(_update(done, total, meter.mark(done)))
    if total and done < total:
        raise _Interrupted(f"the connection broke after {done:,} of {total:,} bytes")


def _chunks(response: IO[bytes]) -> Iterator[bytes]:
    while True:
        try:
            chunk = response.read(_CHUNK)
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
    return f"the connection fails ({text})"


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a server to other http and https addresses, but from https to nothing less."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise Unreachable(f"the server leads from https to {newurl}", where=req.full_url)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


@functools.cache
def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_Redirects)
