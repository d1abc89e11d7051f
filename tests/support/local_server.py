"""An HTTP server on this machine whose answers a function gives."""

import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit


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
    """Answers each request in a thread of its own, from `start` to `stop`."""

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
