"""Answers of servers that go on without end, before their content begins."""

import time

from detection_core.zoo import watched_connection
from detection_core.zoo.watched_connection import Redirects, Unreachable, watched_opener
from tests.support.cases import cases, refused
from tests.support.raw_server import endless, once, serve_raw


def _read(address):
    with watched_opener().open(address, timeout=10) as answer:
        return answer.read()


def test_answers_are_read_whole_interim_ones_have_an_end_and_https_stays_https():
    with serve_raw(once(b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"x" * 200_000)) as address:
        assert _read(address) == b"x" * 200_000
    with serve_raw(endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)) as address:
        refused(OSError, "headers of more than", _read, address)
    request = watched_connection.urllib.request.Request("https://example.org/a")
    arguments = (request, None, 302, "Found", {}, "http://example.org/a")
    refused(Unreachable, "from https to http:", Redirects().redirect_request, *arguments)


@cases(b"", b"HTTP/1.1 200 OK\r\nX-", b"HTTP/1.1 200 OK\r\n\r\n")
def test_what_drips_is_given_up(monkeypatch, *, head):
    monkeypatch.setattr(watched_connection, "_WINDOW_SECONDS", 0.05)
    with serve_raw(endless(head, b"x", pause=0.01)) as address:
        refused(OSError, "at least 5,000 a second", _read, address)


def test_a_slow_reader_is_not_the_servers_fault(monkeypatch):
    monkeypatch.setattr(watched_connection, "_WINDOW_SECONDS", 0.05)
    with (
        serve_raw(once(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc")) as address,
        watched_opener().open(address, timeout=10) as response,
    ):
        time.sleep(0.1)
        assert response.read() == b"abc"


def test_the_body_of_a_redirect_is_not_read():
    def answer(connection, request):
        if b"GET /there " in request:
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nfound")
        else:
            endless(b"HTTP/1.1 302 Found\r\nLocation: /there\r\n\r\n", b"x" * 1_000_000)(connection, request)

    with serve_raw(answer) as address:
        assert _read(f"{address}/here") == b"found"
