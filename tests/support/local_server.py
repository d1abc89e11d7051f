"""HTTP servers on this machine: answers of a function, raw bytes, and files in honest and broken ways."""

import contextlib
import dataclasses
import hashlib
import http.server
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as s:
        return int(s.getsockname()[1])


def wait_for_port(port: int, check: Callable[[], None] = lambda: None, seconds: float = 60) -> None:
    """Wait until a program listens on a port of this machine; `check` may raise meanwhile."""
    until = time.monotonic() + seconds
    while True:
        try:
            return socket.create_connection(("localhost", port), timeout=1).close()
        except OSError:
            check()
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


class Request:
    """What was asked: method, path, query, headers by small names, body."""

    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        self.method, self.path = handler.command, parts.path
        self.query = dict(parse_qsl(parts.query))
        self.headers = {k.lower(): v for k, v in handler.headers.items()}
        self.raw = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))


Answer = tuple[int, str, str] | None
"""Status, content type, text; None: the connection is closed."""


class LocalServer:
    """Answers each request in a separate thread, from `start` to `stop`."""

    def __init__(self, answer: Callable[[Request], Answer]) -> None:
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(answer))
        self._http.daemon_threads = True
        self._scheme = "http"

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._http.server_port}"

    def start(self, certificate: str = "") -> None:
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
            self._scheme = "https"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@contextlib.contextmanager
def posted_json() -> Iterator[tuple[str, list[Any]]]:
    """Give the address of a server that accepts everything, and the list of what was posted to it."""
    posted: list[Any] = []
    server = LocalServer(lambda request: posted.append(json.loads(request.raw)) or (200, "text/plain", "ok"))
    server.start()
    try:
        yield server.url, posted
    finally:
        server.stop()


def _handler(answer: Callable[[Request], Answer]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one packet an answer: a second one waits 40 ms for the delayed acknowledgement

        def _do(self) -> None:
            found = answer(Request(self))
            if found is None:
                self.close_connection = True
                self.connection.close()
                return
            status, kind, text = found
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data if self.command != "HEAD" else b"")

        do_GET = do_HEAD = do_POST = do_DELETE = _do

        def log_message(self, *args: object) -> None:
            pass

    return Handler


@contextlib.contextmanager
def serve_raw(answer: Callable[[socket.socket, bytes], None]) -> Iterator[str]:
    """Yield the address of a server; a function gets each connection, closed afterwards, and its head."""

    def handle(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                piece = connection.recv(4096)
                if not piece:
                    return
                head += piece
            answer(connection, head)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=handle, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def once(data: bytes) -> Callable[[socket.socket, bytes], None]:
    """Answer with these bytes."""
    return lambda connection, request: connection.sendall(data)


def endless(head: bytes, piece: bytes, *, pause: float = 0.0) -> Callable[[socket.socket, bytes], None]:
    """Answer with a head and then with a piece again and again."""

    def answer(connection: socket.socket, request: bytes) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(piece)
            time.sleep(pause)

    return answer


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
