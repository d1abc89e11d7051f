"""Limits of time and size of what a server answers."""

import gzip
import http.server
import threading
import tracemalloc

import pytest

from pipeline.kubeflow import transport
from pipeline.kubeflow.api_errors import ClusterError
from pipeline.kubeflow.connection import Connection
from pipeline.kubeflow.transport import bounded_rest
from pipeline.settings.connection_settings import ConnectionOptions


@pytest.fixture
def hostile():
    """A server whose answers are made by `answer(handler)`."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 10

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


def _untold(handler):
    _head(handler, Transfer_Encoding="chunked")
    for _ in range(3_000):
        handler.wfile.write(b"100000\r\n" + b" " * (1 << 20) + b"\r\n")


def _answer(body, size="", times=1, **headers):
    """Answer with a body so many times, whose size is said to be this one."""

    def answer(handler):
        _head(handler, Content_Length=size or str(len(body) * times), **headers)
        for _ in range(times):
            handler.wfile.write(body)
        handler.close_connection = bool(size)

    return answer


HEALTH = b'{"multi_user": false, "tag_name": "2.17.0"}'


def test_an_answer_of_gigabytes_is_refused_with_the_limit_and_not_held_in_memory(hostile, monkeypatch):
    expected = r"an answer of {}, where {} MiB are read at most; check that --host"
    for answer, size in (
        (_answer(b" " * (1 << 20), times=3 << 10), "3,072 MiB"),
        (_untold, "more than 64 MiB"),
    ):
        hostile.answer = answer
        with pytest.raises(ClusterError, match=expected.format(size, 64)) as caught:
            _connect(hostile, timeout=60)
        assert not caught.value.transient
    monkeypatch.setattr(transport, "ANSWER_MIB", 8)
    tracemalloc.start()
    for answer in (_untold, _answer(gzip.compress(b" " * (1 << 20)) * 32, Content_Encoding="gzip")):
        hostile.answer = answer
        with pytest.raises(ClusterError, match=expected.format("more than 8 MiB", 8)):
            _connect(hostile, timeout=60)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * (8 << 20)


def test_an_answer_that_drips_costs_no_more_than_the_limit(hostile):
    hostile.answer = _answer(HEALTH)
    connection = _connect(hostile)
    over = threading.Event()

    def drip(handler):
        _head(handler, Content_Length="1000")
        while not over.wait(0.02):
            handler.wfile.write(b" ")
            handler.wfile.flush()

    hostile.answer = drip
    connection.api_client.rest_client = bounded_rest(connection.api_client.configuration, 0.2)
    with pytest.raises(ClusterError, match="no answer within the time limit"):
        connection.get_text("reading", "/x")
    over.set()


def test_a_size_that_is_no_number_is_ignored_and_a_packed_answer_unpacked(hostile):
    for size in ("9" * 5000, "\u00b2", "-1", "x"):
        hostile.answer = _answer(HEALTH, size, Connection="close")
        assert _connect(hostile).server_version == "2.17.0"
    hostile.answer = _answer(gzip.compress(HEALTH), Content_Encoding="gzip")
    assert _connect(hostile).server_version == "2.17.0"


def test_of_a_log_that_is_too_long_the_end_is_read(hostile, monkeypatch):
    monkeypatch.setattr(transport, "ANSWER_MIB", 1)
    hostile.answer = _answer(HEALTH)
    connection = _connect(hostile, timeout=30)
    hostile.answer = _answer(b"x" * (3 << 20) + b" the end")
    text = connection.get_text("reading a log", "/log", end_only=True)
    assert text.endswith("x the end") and (1 << 20) - (1 << 16) < len(text) <= 1 << 20
    with pytest.raises(ClusterError, match="an answer of 3 MiB"):
        connection.get_text("reading a log", "/log")
