"""Resumable downloads by HTTP range requests (RFC 9110, section 14).

Data is collected in `FILE.part`; `FILE.part.json` records its version. A download is resumed only if the
server identifies the version by a strong ETag or a date. pooch and fsspec are not used: they cannot resume,
and limit neither the size nor the rate of a response.
"""

import base64
import functools
import http.client
import json
import logging
import os
import re
import shutil
import socket
import stat
import threading
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

from detection_core.errors import ModelError, StorageError, one_line, shorten
from detection_core.progress import Progress
from detection_core.redaction import clean, hide, hide_credentials
from detection_core.storage import files

_logger = logging.getLogger(__name__)

_TIMEOUT_SECONDS = 30
_CHUNK = 1 << 18
_MEGABYTE = 1_000_000
# Consecutive attempts below the minimum rate, and the first wait, which then doubles.
_ATTEMPTS = 5
_WAIT_SECONDS = 1.0
# Temporary errors, worth a retry.
_TEMPORARY = (408, 425, 429, 500, 502, 503, 504)
_OK, _PARTIAL, _NOT_SATISFIABLE = 200, 206, 416
_NOTE_BYTES = 1 << 14
_LOWEST_RATE = 5_000
"""Minimum rate in bytes per second; slower servers are abandoned."""
_WINDOW_SECONDS = 60.0


class _Response(http.client.HTTPResponse):
    """A response whose head has to arrive in time, with all interim responses; http.client waits forever."""

    def __init__(self, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self._hang_up = functools.partial(sock.shutdown, socket.SHUT_RDWR)

    def begin(self) -> None:
        late, timer = time.monotonic() + _WINDOW_SECONDS, threading.Timer(_WINDOW_SECONDS, self._hang_up)
        timer.start()
        try:
            super().begin()
        except (OSError, http.client.HTTPException):
            if time.monotonic() < late:
                raise
        finally:
            timer.cancel()
        if time.monotonic() >= late:
            raise OSError(f"no whole head of a response arrived in {_WINDOW_SECONDS:.3g} s")


class Unreachable(ModelError):
    """A file that cannot be fetched; the message gives the reason, without a remedy."""


class _Interrupted(Exception):
    """A transfer that may succeed on a retry."""


class _NoConnection(_Interrupted):
    """No connection. Retried only if the server has answered before."""


def download(address: str, path: str, *, most_bytes: int) -> None:
    """Fetch a file, resuming an earlier download.

    The caller must prevent concurrent downloads to the same path.

    Args:
        address: http or https; it may hold a name and a password.
        path: local file to create; its folder exists.
        most_bytes: a larger file is refused, and nothing of it is kept.

    Raises:
        Unreachable: when the address is invalid, or the server does not send the file, or sends more.
        StorageError: when the disk cannot hold it.
    """
    hide_credentials(address)
    try:
        parts = urllib.parse.urlsplit(address)
    except ValueError as error:
        raise Unreachable(f"the address is invalid ({error})", where=address) from error
    if parts.username is not None:
        words = [urllib.parse.unquote(word or "") for word in (parts.username, parts.password)]
        hide(base64.b64encode(":".join(words).encode()).decode())
    part = _Part(path, most_bytes)
    failures, most = 0, part.size
    began = most
    while True:
        started = time.monotonic()
        try:
            _transfer(address, part)
            break
        except _Interrupted as error:
            # The minimum rate also applies to a server that breaks off or starts again.
            seconds = time.monotonic() - started + _WAIT_SECONDS
            failures = 1 if part.size - most > _LOWEST_RATE * seconds else failures + 1
            most = max(most, part.size)
            hopeless = isinstance(error, _NoConnection) and most == began
            if hopeless or failures >= _ATTEMPTS:
                raise Unreachable(str(error), where=address) from error
            pause = _WAIT_SECONDS * 2 ** (failures - 1)
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


def _transfer(address: str, part: _Part) -> None:
    """Make one request and store the response."""
    import requests

    done, version = part.size, part.version(address)
    headers = {"User-Agent": "detflow", "Accept-Encoding": "identity"}
    if not (done and version):
        part.discard()
        done = 0
    else:
        headers |= {"Range": f"bytes={done}-", "If-Range": version}
    try:
        response = _session().get(address, headers=headers, stream=True, timeout=_TIMEOUT_SECONDS)
    except requests.TooManyRedirects as error:
        raise Unreachable("the server leads in circles", where=address) from error
    except (requests.RequestException, ValueError) as error:
        raise _NoConnection(_reason(error)) from error
    with response:
        total = _take_up(response, address, part, done)
        if total is None:
            return
        if total > part.most_bytes:
            raise part.refuse(f"{total:,}")
        _make_room(part, total - part.size)
        _receive(response, part, total)


@functools.cache
def _session() -> Any:
    """Return a session that follows redirects to http and https, but never from https to http."""
    import requests
    from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

    class Session(requests.Session):
        def get_redirect_target(self, resp: requests.Response) -> str | None:
            target = super().get_redirect_target(resp)
            if target is None:
                return None
            resp.close()  # Its body, which may have no end, is not read.
            target = urllib.parse.urljoin(resp.url, target)
            if not target.startswith(("https:",) if resp.url.startswith("https:") else ("http:", "https:")):
                here = urllib.parse.urlsplit(resp.url).scheme
                raise Unreachable(f"the server leads from {here} to {target}", where=resp.url)
            return target

    session = Session()
    for scheme, pool in (("http", HTTPConnectionPool), ("https", HTTPSConnectionPool)):
        connection = type("Connection", (pool.ConnectionCls,), {"response_class": _Response})
        manager = session.get_adapter(f"{scheme}://").poolmanager
        watched = type("Pool", (pool,), {"ConnectionCls": connection})
        manager.pool_classes_by_scheme = manager.pool_classes_by_scheme | {scheme: watched}
    return session


def _public(address: str) -> str:
    """Return an address for logs and notes: without secrets, but different for different addresses."""
    parts = urllib.parse.urlsplit(address)
    return clean(urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])))


def _take_up(response: Any, address: str, part: _Part, done: int) -> int | None:
    """Prepare the part for a response; return the whole size, 0 if unknown, None if the part is complete."""
    status, headers = response.status_code, response.headers
    # A validator for If-Range: a strong ETag, or else a date.
    etag = headers.get("ETag") or ""
    version = etag if etag.startswith('"') else headers.get("Last-Modified") or ""
    if status == _OK:
        part.begin(address, version)
        length = _parse(headers, "Content-Length", _SIZE, address)
        return int(length[0]) if length else 0
    if status == _PARTIAL or (status == _NOT_SATISFIABLE and done):
        place = _parse(headers, "Content-Range", _CONTENT_RANGE, address)
        start, total = place.groups("-1") if place else ("-1", "*")
        whole = int(total) if total != "*" else 0
        if status == _PARTIAL and int(start) == done and version in ("", part.version(address)):
            return whole
        if status == _NOT_SATISFIABLE and whole == done:
            return None
        part.discard()
        raise _Interrupted("the server sends another part, or a part of another version, than was asked for")
    text = one_line(f"the server answers {status} {response.reason}".rstrip(), 200)
    if status in _TEMPORARY:
        raise _Interrupted(text)
    raise Unreachable(text, where=address)


# Python refuses to convert thousands of digits.
_SIZE = re.compile(r"\d{1,18}", re.ASCII)
_CONTENT_RANGE = re.compile(r"bytes (?:(\d{1,18})-\d{1,18}|\*)/(\d{1,18}|\*)", re.ASCII)


def _parse(
    headers: Mapping[str, str], name: str, form: re.Pattern[str], address: str
) -> re.Match[str] | None:
    value = headers.get(name)
    match = form.fullmatch(value) if value is not None else None
    if value is not None and match is None:
        raise Unreachable(f"expected sizes in bytes as {name}, found {shorten(value, 60)}", where=address)
    return match


def _make_room(part: _Part, needed: int) -> None:
    """Refuse a file that does not fit on the disk, before the disk is full."""
    free = shutil.disk_usage(os.path.dirname(part.file) or ".").free
    if needed > free:
        raise StorageError(
            f"expected {needed / _MEGABYTE:,.0f} MB of free space, found {free / _MEGABYTE:,.0f};"
            " free some, or name another folder by DETFLOW_CACHE",
            where=part.file,
        )


def _receive(response: Any, part: _Part, total: int) -> None:
    done, most = part.size, total or part.most_bytes
    shown = Progress("download", total=total, done=done, unit="megabyte", per_unit=_MEGABYTE)
    with open(part.file, "ab") as file, shown as progress:
        for chunk in _chunks(response):
            done += len(chunk)
            if done > most:
                raise part.refuse(f"that the server sends more than {most:,}")
            file.write(chunk)
            progress.advance(len(chunk))
    if total and done < total:
        raise _Interrupted(f"the connection broke after {done:,} of {total:,} bytes")


def _chunks(response: Any) -> Iterator[bytes]:
    """Yield a response's bytes as they arrive, until it ends or breaks off."""
    import urllib3

    response.raw.enforce_content_length = False  # The caller compares, and says how much is missing.
    received, waited = 0, 0.0
    while True:
        began = time.monotonic()
        try:
            # read() would wait for the whole chunk, however slowly it arrives.
            chunk = response.raw.read1(_CHUNK)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise _Interrupted(_reason(error)) from error
        if not chunk:
            return
        # Only waiting counts, not the time between reads.
        received, waited = received + len(chunk), waited + time.monotonic() - began
        if waited >= _WINDOW_SECONDS:
            if received < _LOWEST_RATE * waited:
                raise _Interrupted(
                    f"{received:,} bytes arrived in {waited:.3g} s, at least {_LOWEST_RATE:,} a second are"
                    " expected"
                )
            received, waited = 0, 0.0
        yield chunk


def _reason(error: BaseException) -> str:
    """Return the first cause of a failure; the messages of packages repeat the address."""
    while cause := error.__cause__ or error.__context__:
        error = cause
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return f"the connection fails ({one_line(text, 200)})"
