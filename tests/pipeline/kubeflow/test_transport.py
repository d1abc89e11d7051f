import gzip
import threading
import tracemalloc
import types

import pytest

from pipeline.kubeflow import transport
from pipeline.kubeflow.api_errors import ClusterError
from pipeline.kubeflow.connection import Connection
from pipeline.kubeflow.transport import bounded_rest, keep_host
from pipeline.settings.connection_settings import ConnectionOptions
from tests.support.raw_server import serve_raw

HEALTH = b'{"multi_user": false, "tag_name": "2.17.0"}'
MEBIBYTE = b" " * (1 << 20)


@pytest.fixture
def hostile():
    """A server whose answers are made by `answer(connection)`."""
    server = types.SimpleNamespace(answer=_answer(HEALTH))
    with serve_raw(lambda connection, _: server.answer(connection)) as server.url:
        yield server


def _connect(server, timeout=3):
    return Connection.open(ConnectionOptions(host=server.url, timeout=timeout))


def _answer(body, head="", *, times=1):
    """Answer with a body so many times, its length in the head unless there is another one."""
    head = f"HTTP/1.1 200 OK\r\nConnection: close\r\n{head or f'Content-Length: {len(body) * times}'}\r\n\r\n"

    def answer(connection):
        connection.sendall(head.encode("latin-1"))
        for _ in range(times):
            connection.sendall(body)

    return answer


def _packed(body):
    return _answer(body, f"Content-Encoding: gzip\r\nContent-Length: {len(body)}")


def test_an_answer_of_gigabytes_is_refused_with_the_limit_and_not_held_in_memory(hostile, monkeypatch):
    expected = r"an answer of {}, where {} MiB are read at most; check that --host"
    told = _answer(MEBIBYTE, times=3 << 10)
    untold = _answer(b"100000\r\n" + MEBIBYTE + b"\r\n", "Transfer-Encoding: chunked", times=3_000)
    for hostile.answer, size in ((told, "3,072 MiB"), (untold, "more than 64 MiB")):
        with pytest.raises(ClusterError, match=expected.format(size, 64)) as caught:
            _connect(hostile, timeout=60)
        assert not caught.value.transient
    monkeypatch.setattr(transport, "ANSWER_MIB", 8)
    tracemalloc.start()
    for hostile.answer in (untold, _packed(gzip.compress(MEBIBYTE) * 32)):
        with pytest.raises(ClusterError, match=expected.format("more than 8 MiB", 8)):
            _connect(hostile, timeout=60)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * (8 << 20)


def test_an_answer_that_drips_costs_no_more_than_the_limit(hostile):
    connection = _connect(hostile)
    over = threading.Event()

    def drip(connection):
        _answer(b"", "Content-Length: 1000")(connection)
        while not over.wait(0.02):
            connection.sendall(b" ")

    hostile.answer = drip
    connection.api_client.rest_client = bounded_rest(connection.api_client.configuration, 0.2)
    with pytest.raises(ClusterError, match="no answer within the time limit"):
        connection.get_text("reading", "/x")
    over.set()


def test_a_size_that_is_no_number_is_ignored_and_a_packed_answer_unpacked(hostile):
    wrong = [_answer(HEALTH, f"Content-Length: {size}") for size in ("9" * 5000, "\u00b2", "-1", "x")]
    for hostile.answer in (*wrong, _packed(gzip.compress(HEALTH))):
        assert _connect(hostile).server_version == "2.17.0"


def test_of_a_log_that_is_too_long_the_end_is_read(hostile, monkeypatch):
    monkeypatch.setattr(transport, "ANSWER_MIB", 1)
    connection = _connect(hostile, timeout=30)
    hostile.answer = _answer(b"x" * (3 << 20) + b" the end")
    text = connection.get_text("reading a log", "/log", end_only=True)
    assert text.endswith("x the end") and (1 << 20) - (1 << 16) < len(text) <= 1 << 20
    with pytest.raises(ClusterError, match="an answer of 3 MiB"):
        connection.get_text("reading a log", "/log")


def test_a_token_that_is_renewed_keeps_the_address():
    def renew(renewed):
        renewed.host, renewed.refresh_api_key_hook = "http://api", renew

    for hook in (None, renew):
        kept = types.SimpleNamespace(host="http://api/proxy/", refresh_api_key_hook=hook, api_key={})
        keep_host(kept)
        for _ in range(2 if hook else 0):
            kept.refresh_api_key_hook(kept)
        assert kept.host == "http://api/proxy" and (kept.refresh_api_key_hook is None) == (hook is None)
