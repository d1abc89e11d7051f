"""A server of files on this machine, honest or broken in the ways that servers and networks are.

Ranges and validators behave as RFC 9110 (sections 13.1.5, 14.2 and 14.4) has them.
"""

import contextlib
import dataclasses
import hashlib
import http.server
import re
import threading
from collections.abc import Callable, Iterator


@dataclasses.dataclass
class Behaviour:
    """What a server does with its next requests; the tests change it."""

    files: dict[str, bytes]  # path to content
    ranges: bool = True  # whether parts are sent
    validator: bool = True  # whether an ETag is sent
    length: bool = True  # whether the size is sent
    # of each of the next answers, bytes after which the connection is closed
    cut_after: list[int] = dataclasses.field(default_factory=list)
    statuses: list[int] = dataclasses.field(default_factory=list)  # of the next answers, in place of files
    redirects: dict[str, str] = dataclasses.field(default_factory=dict)  # path to where it leads
    on_request: Callable[[int], None] = lambda number: None  # called with the number of the request, from 1
    ignores_if_range: bool = False  # a part is sent even of another version
    requests: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    authorizations: list[str | None] = dataclasses.field(default_factory=list)
    sent: int = 0
    address: str = ""


@contextlib.contextmanager
def serve(files: dict[str, bytes]) -> Iterator[Behaviour]:
    """Serve files at `address` for the length of a `with` block."""
    behaviour = Behaviour(files)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _answer(self, behaviour)

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        behaviour.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield behaviour
        finally:
            server.shutdown()
            thread.join()


def _answer(handler: http.server.BaseHTTPRequestHandler, behaviour: Behaviour) -> None:
    asked = handler.headers.get("Range") or ""
    behaviour.requests.append((handler.path, asked))
    behaviour.authorizations.append(handler.headers.get("Authorization"))
    behaviour.on_request(len(behaviour.requests))
    if behaviour.statuses:
        status = behaviour.statuses.pop(0)
        handler.send_error(status)
        return
    if handler.path in behaviour.redirects:
        handler.send_response(302)
        handler.send_header("Location", behaviour.redirects[handler.path])
        handler.end_headers()
        return
    content = behaviour.files.get(handler.path.partition("?")[0])
    if content is None:
        handler.send_error(404)
        return
    _send(handler, behaviour, content, asked)


def _send(
    handler: http.server.BaseHTTPRequestHandler, behaviour: Behaviour, content: bytes, asked: str
) -> None:
    etag = f'"{hashlib.md5(content).hexdigest()}"'
    expected = re.fullmatch(r"bytes=(\d+)-", asked)
    same = behaviour.ignores_if_range or handler.headers.get("If-Range") == etag
    start = int(expected[1]) if expected and behaviour.ranges and same else 0
    if start and start >= len(content):
        handler.send_response(416)
        handler.send_header("Content-Range", f"bytes */{len(content)}")
        handler.send_header("Content-Length", "0")
        handler.end_headers()
        return
    handler.send_response(206 if start else 200)
    if start:
        handler.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
    if behaviour.validator:
        handler.send_header("ETag", etag)
    if behaviour.length:
        handler.send_header("Content-Length", str(len(content) - start))
    handler.end_headers()
    body = content[start:]
    if behaviour.cut_after:
        body = body[: behaviour.cut_after.pop(0)]
    behaviour.sent += len(body)
    with contextlib.suppress(ConnectionError):
        handler.wfile.write(body)
