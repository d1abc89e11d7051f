"""Requests to the server: limits of time and size, proxy, retries, and a fixed host."""

from __future__ import annotations

import collections
import contextlib
import os
import re
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

from detection_core.redaction import hide
from pipeline.kubeflow.connection_options import VARIABLES

ANSWER_MIB = 64
"""Maximum size of an answer in bytes. A run of a thousand steps takes about 2 MiB."""

_CHUNK = 1 << 16
# Python refuses to convert thousands of digits.
_SIZE = re.compile(r"\d{1,18}", re.ASCII)


class AnswerTooLargeError(OSError):
    """The answer is longer than any answer of a Kubeflow Pipelines server."""

    def __init__(self, size: str) -> None:
        super().__init__(f"an answer of {size}, where {ANSWER_MIB} MiB are read at most")


def bounded_rest(configuration: Any, timeout: int) -> Any:
    """Return the client's transport with bounded requests; `timeout` is in seconds for a whole answer."""
    import kfp_server_api

    class BoundedRest(kfp_server_api.rest.RESTClientObject):
        def request(self, *args: Any, _request_timeout: Any = None, **kwargs: Any) -> Any:
            limits = _request_timeout or (min(10, timeout), timeout)
            return super().request(*args, _request_timeout=limits, **kwargs)

    rest = BoundedRest(configuration)
    rest.pool_manager = _BoundedPool(rest.pool_manager, timeout)
    return rest


class _BoundedPool:
    """A connection pool that reads answers in chunks, within the limits."""

    def __init__(self, pool: Any, timeout: int) -> None:
        self._pool = pool
        self._timeout = timeout
        self._end_only = False

    @contextlib.contextmanager
    def end_only(self) -> Iterator[None]:
        """Keep the end of longer answers, such as logs, instead of refusing them."""
        self._end_only = True
        try:
            yield
        finally:
            self._end_only = False

    def request(self, method: str, url: str, *, preload_content: bool = True, **more: Any) -> Any:
        """Send a request and return its answer, completely read."""
        import urllib3

        answer = self._pool.request(method, url, preload_content=False, **more)
        try:
            body = self._read(answer, url)
        finally:
            answer.release_conn()
        return urllib3.HTTPResponse(
            body=body,
            headers=answer.headers,
            status=answer.status,
            reason=answer.reason,
            decode_content=False,
        )

    def _read(self, answer: Any, url: str) -> bytes:
        import urllib3

        most, until = ANSWER_MIB << 20, time.monotonic() + self._timeout
        announced = answer.headers.get("Content-Length", "")
        if _SIZE.fullmatch(announced) and int(announced) > most and not self._end_only:
            answer.close()
            raise AnswerTooLargeError(f"{int(announced) / (1 << 20):,.0f} MiB")
        pieces: collections.deque[bytes] = collections.deque()
        size = 0
        while piece := answer.read1(_CHUNK):
            pieces.append(piece)
            size += len(piece)
            if size > most and not self._end_only:
                answer.close()
                raise AnswerTooLargeError(f"more than {ANSWER_MIB} MiB")
            while size > most:
                size -= len(pieces.popleft())
            if time.monotonic() > until:
                answer.close()
                raise urllib3.exceptions.ReadTimeoutError(self._pool, url, "Read timed out.")
        return b"".join(pieces)


def retries() -> Any:
    """Return the retry policy: retry a failed connection once, but no request that may have arrived."""
    import urllib3

    return urllib3.Retry(total=1, redirect=3, backoff_factor=0.2)


def keep_host(configuration: Any) -> None:
    """Keep the host when a kube context renews its token, which would remove the path to the server.

    Before every request, kubernetes' loader calls its hook, which resets host and hook. The hook set here
    restores both.
    """
    # With a kube context kfp ends the host with a slash, and a request's path begins with one.
    configuration.host = configuration.host.rstrip("/")
    renew, host = configuration.refresh_api_key_hook, configuration.host
    if renew is None:
        return

    def renew_and_keep(renewed: Any) -> None:
        renew(renewed)
        renewed.host = host
        renewed.refresh_api_key_hook = renew_and_keep
        hide_token(renewed)

    configuration.refresh_api_key_hook = renew_and_keep


def hide_token(configuration: Any) -> None:
    """Register the token of a client's configuration for redaction."""
    hide(str(configuration.api_key.get("authorization") or "").removeprefix("Bearer "))


@contextlib.contextmanager
def no_endpoint_variables() -> Iterator[None]:
    """Hide kfp's environment variables, which were read before, so that flags override them."""
    hidden = {n: os.environ.pop(n) for n in VARIABLES.values() if n in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)


def proxy_of(host: str) -> str | None:
    """Return the proxy of the environment for a host."""
    scheme, _, rest = host.partition("://")
    name = rest.partition("/")[0]
    if not host or urllib.request.proxy_bypass(name):
        return None
    return urllib.request.getproxies().get(scheme)
