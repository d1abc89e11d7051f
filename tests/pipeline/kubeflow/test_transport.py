from __future__ import annotations

import gzip
import http.server
import threading
import time
import tracemalloc

import pytest

from pipeline.kubeflow.api_errors import ClusterError
from pipeline.kubeflow.connection import Connection
from pipeline.kubeflow.transport import ANSWER_MIB
from pipeline.settings.connection_settings import ConnectionOptions


@pytest.fixture
def hostile():
    """A server whose answers are made by `answer(handler)`."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            try:
                self.server.answer(self)
            except OSError:
                self.close_connection = True

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # a client that hangs up is what is tested
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def _connect(server, timeout=3):
    return Connection.open(ConnectionOptions(host=f"http://127.0.0.1:{server.server_port}", timeout=timeout))


def _head(handler, **headers):
    handler.send_response(200)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()


def _three_gigabytes_told(handler):
    _head(handler, Content_Length=str(3 * 10**9))
    for _ in range(3_000):
        handler.wfile.write(b" " * 1_000_000)


def _three_gigabytes_untold(handler):
    _head(handler, Transfer_Encoding="chunked")
    for _ in range(3_000):
        handler.wfile.write(b"F4240\r\n" + b" " * 1_000_000 + b"\r\n")


def _packed(handler):
    body = gzip.compress(b" " * (ANSWER_MIB << 20) * 4)
    _head(handler, Content_Length=str(len(body)), Content_Encoding="gzip")
    handler.wfile.write(body)


@pytest.mark.parametrize("answer", [_three_gigabytes_told, _three_gigabytes_untold, _packed])
def test_an_answer_of_gigabytes_is_refused_with_the_limit(hostile, answer):
    hostile.answer = answer
    with pytest.raises(
        ClusterError, match=r"an answer of .*where 64 MiB are read at most; check that --host"
    ) as e:
        _connect(hostile, timeout=60)
    assert not e.value.transient


def test_nothing_near_its_size_is_asked_of_memory(hostile):
    hostile.answer = _three_gigabytes_untold
    tracemalloc.start()
    with pytest.raises(ClusterError):
        _connect(hostile, timeout=60)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * (ANSWER_MIB << 20)


def test_an_answer_that_drips_costs_no_more_than_the_limit(hostile):
    def drip(handler):
        _head(handler, Content_Length="1000")
        for _ in range(60):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.2)

    hostile.answer = drip
    begun = time.monotonic()
    with pytest.raises(ClusterError, match="no answer within the time limit"):
        _connect(hostile, timeout=1)
    assert time.monotonic() - begun < 8


@pytest.mark.parametrize("size", ["9" * 5000, "\u00b2", "-1", "x"])
def test_a_size_that_is_no_number_is_ignored(hostile, size):
    def answer(handler):
        _head(handler, Content_Length=size, Connection="close")
        handler.wfile.write(b'{"multi_user": false, "tag_name": "2.17.0"}')
        handler.close_connection = True

    hostile.answer = answer
    assert _connect(hostile).server_version == "2.17.0"


def test_a_packed_answer_is_unpacked(hostile):
    def answer(handler):
        body = gzip.compress(b'{"multi_user": false, "tag_name": "2.17.0"}')
        _head(handler, Content_Length=str(len(body)), Content_Encoding="gzip")
        handler.wfile.write(body)

    hostile.answer = answer
    assert _connect(hostile).server_version == "2.17.0"


def test_of_a_log_that_is_too_long_the_end_is_read(hostile):
    hostile.answer = lambda handler: _answer(handler, b'{"multi_user": false, "tag_name": "2.17.0"}')
    connection = _connect(hostile, timeout=30)
    hostile.answer = lambda handler: _answer(handler, b"x" * ((ANSWER_MIB + 2) << 20) + b" the end")
    text = connection.get_text("reading a log", "/log", end_only=True)
    assert text.endswith("x the end") and len(text) <= ANSWER_MIB << 20
    with pytest.raises(ClusterError, match="an answer of 66 MiB"):
        connection.get_text("reading a log", "/log")


def _answer(handler, body):
    _head(handler, Content_Length=str(len(body)))
    handler.wfile.write(body)
