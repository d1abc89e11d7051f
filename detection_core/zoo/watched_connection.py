"""HTTP and HTTPS connections with bounded responses.

http.client limits neither the time of a response nor the number of interim responses. urllib reads the whole
body of a redirect. Here a response needs a minimum rate, its head is bounded, and the body of a redirect is
not read.
"""

import http.client
import io
import time
import urllib.request
from typing import Any, cast

from detection_core.errors import ModelError

LOWEST_RATE = 5_000
"""Minimum rate in bytes per second; slower servers are abandoned."""
_WINDOW_SECONDS = 60.0
# http.client accepts up to 6 MB in 100 lines, and any number of interim responses.
_MOST_HEAD_BYTES = 1 << 20
_BUFFER = 1 << 16


class Unreachable(ModelError):
    """A file that cannot be fetched; the message gives the reason, without a remedy."""


class _WatchedStream(io.RawIOBase):
    """The bytes of one response; `head` tells whether its head is still being read."""

    def __init__(self, raw: io.RawIOBase) -> None:
        self._raw, self.head = raw, True
        self._all = self._recent = 0
        self._waited = 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        began = time.monotonic()
        count = self._raw.readinto(buffer) or 0
        # Only waiting counts, not the time between reads.
        self._waited += time.monotonic() - began
        self._all, self._recent = self._all + count, self._recent + count
        if self.head and self._all > _MOST_HEAD_BYTES:
            raise OSError(f"headers of more than {_MOST_HEAD_BYTES:,} bytes")
        if count and self._waited >= _WINDOW_SECONDS:
            if self._recent < LOWEST_RATE * self._waited:
                raise OSError(
                    f"{self._recent:,} bytes arrived in {self._waited:.3g} s, at least {LOWEST_RATE:,} a"
                    " second are expected"
                )
            self._recent, self._waited = 0, 0.0
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _WatchedResponse(http.client.HTTPResponse):
    def __init__(self, sock: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self.fp.close()
        self._stream = _WatchedStream(sock.makefile("rb", buffering=0))
        self.fp = io.BufferedReader(self._stream, _BUFFER)

    def begin(self) -> None:
        super().begin()
        self._stream.head = False


class _Connection(http.client.HTTPConnection):
    response_class = _WatchedResponse


class _SecureConnection(http.client.HTTPSConnection):
    response_class = _WatchedResponse


class _Handler(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(cast(Any, _Connection), req)


class _SecureHandler(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(cast(Any, _SecureConnection), req)


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects to http and https addresses, but never from https to http."""

    def http_error_302(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> Any:
        """Follow a redirect without reading its body."""
        fp.close()
        return super().http_error_302(req, cast(Any, io.BytesIO()), code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """Return the request that follows a redirect.

        Raises:
            Unreachable: when it leaves https, or leads from http to another protocol like FTP.
        """
        allowed = ("https:",) if req.full_url.startswith("https:") else ("http:", "https:")
        if not newurl.startswith(allowed):
            raise Unreachable(f"the server leads from {req.type} to {newurl}", where=req.full_url)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def watched_opener() -> urllib.request.OpenerDirector:
    """Return an opener for http and https addresses with watched connections."""
    return urllib.request.build_opener(_Handler, _SecureHandler, Redirects)
