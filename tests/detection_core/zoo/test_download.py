"""Downloads from an honest and from a broken server on this machine."""

import functools
import itertools
import json
import os
import socket
import time
import urllib.parse

import pytest

from detection_core.errors import StorageError
from detection_core.redaction import CleanFormatter
from detection_core.zoo import download as downloads
from detection_core.zoo import watched_connection
from detection_core.zoo.download import Patience
from detection_core.zoo.watched_connection import Unreachable
from tests.support.cases import cases, refused
from tests.support.raw_server import serve_raw
from tests.support.weights_server import serve

CONTENT = os.urandom(300_000)
MOST = 10_000_000
download = functools.partial(downloads.download, most_bytes=MOST)
QUICK = Patience(attempts=3, wait_seconds=0.001)


@pytest.fixture
def server():
    with serve({"/a.bin": CONTENT}) as behaviour:
        yield behaviour


def _fetch(server, tmp_path, path="/a.bin", **options):
    target = tmp_path / "a.bin"
    download(f"{server.address}{path}", str(target), patience=QUICK, **options)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.bin"]
    return target.read_bytes()


@cases(True, False)
def test_a_file_arrives_whole_and_leaves_nothing_beside_it(server, tmp_path, *, size_is_known):
    server.length, server.requests = size_is_known, []
    assert _fetch(server, tmp_path) == CONTENT
    assert server.requests == [("/a.bin", "")]


def test_a_broken_transfer_goes_on_where_it_stopped(server, tmp_path):
    server.cut_after = [100_000, 50_000]
    assert _fetch(server, tmp_path) == CONTENT
    assert [asked for _, asked in server.requests] == ["", "bytes=100000-", "bytes=150000-"]
    assert server.sent == len(CONTENT)


def test_a_server_without_ranges_or_versions_starts_again(server, tmp_path):
    server.ranges, server.cut_after = False, [100_000]
    assert _fetch(server, tmp_path) == CONTENT
    assert server.sent == 100_000 + len(CONTENT)
    server.ranges, server.validator, server.cut_after, server.requests = True, False, [100_000], []
    assert _fetch(server, tmp_path) == CONTENT
    assert [asked for _, asked in server.requests] == ["", ""]


@cases(False, True)
def test_a_file_that_changes_in_the_middle_is_fetched_anew(server, tmp_path, *, careless):
    changed = os.urandom(310_000)

    def change(number):
        if number == 2:
            server.files["/a.bin"] = changed

    server.requests.clear()
    server.on_request, server.cut_after, server.ignores_if_range = change, [100_000], careless
    assert _fetch(server, tmp_path) == changed


# What lies there when another process goes on, and how much of it is sent again; a longer one is no part.
@cases((CONTENT[:100_000], 200_000), (CONTENT, 0), (CONTENT + b"more", len(CONTENT)))
def test_another_process_goes_on_with_what_a_killed_one_has_left(server, tmp_path, *, left, sent):
    server.cut_after = [100_000, 0, 0, 0]
    with pytest.raises(Unreachable, match="broke after 100,000 of 300,000 bytes"):
        download(f"{server.address}/a.bin", str(tmp_path / "a.bin"), patience=QUICK)
    (tmp_path / "a.bin.part").write_bytes(left)
    server.cut_after, server.sent = [], 0
    assert _fetch(server, tmp_path) == CONTENT
    assert server.sent == sent


@cases(500, 503, 429)
def test_a_server_in_trouble_is_asked_again(server, tmp_path, *, status):
    server.statuses = [status, status]
    assert _fetch(server, tmp_path) == CONTENT
    server.statuses = [status] * 3
    with pytest.raises(Unreachable, match=f"answers {status}"):
        download(f"{server.address}/a.bin", str(tmp_path / "b.bin"), patience=QUICK)


@cases(403, 410, 404)
def test_a_refusal_is_final_and_leaves_nothing(server, tmp_path, *, status):
    server.statuses, server.requests = [status], []
    with pytest.raises(Unreachable, match=f"answers {status}"):
        _fetch(server, tmp_path, "/none" if status == 404 else "/a.bin")
    assert len(server.requests) == 1 and not list(tmp_path.iterdir())


def test_redirects_are_followed_but_in_no_circles_and_to_no_other_protocol(server, tmp_path):
    server.redirects = {"/old": "/older", "/older": "/a.bin", "/x": "/y", "/y": "/x"}
    server.redirects |= {"/file": "file:///etc/passwd", "/ftp": "ftp://127.0.0.1/a"}
    assert _fetch(server, tmp_path, "/old") == CONTENT
    for path, message in (("/x", "in circles"), ("/file", ""), ("/ftp", "")):
        with pytest.raises(Unreachable, match=message):
            download(f"{server.address}{path}", str(tmp_path / "b"), patience=QUICK)


def test_without_a_network_one_attempt_is_enough(tmp_path, caplog):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    refused(Unreachable, "refused", download, f"http://127.0.0.1:{port}/a", str(tmp_path / "a"))
    assert not caplog.records


@cases(True, False)
def test_of_a_file_that_is_too_large_nothing_is_kept(server, tmp_path, *, size_is_known):
    server.length = size_is_known
    with pytest.raises(Unreachable, match=r"expected at most 200,000 bytes, found .*[23]00,000"):
        _fetch(server, tmp_path, most_bytes=200_000)
    assert not list(tmp_path.iterdir())


def _answering(head, *body, pause=0.0):
    """Answer with a head and then with pieces without end."""

    def answer(connection, request):
        connection.sendall(head.encode() + b"\r\n\r\n")
        while True:
            for piece in body:
                connection.sendall(piece)
                time.sleep(pause)

    return answer


@cases(
    "HTTP/1.1 200 OK",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked",
    "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-9/*",
)
def test_an_endless_answer_ends_and_leaves_nothing(tmp_path, *, head):
    piece = b"x" * 65_536
    piece = b"10000\r\n" + piece + b"\r\n" if "chunked" in head else piece
    with serve_raw(_answering(head, piece)) as address, pytest.raises(Unreachable, match="sends more than"):
        download(f"{address}/a", str(tmp_path / "a"), patience=QUICK)
    assert not list(tmp_path.iterdir())


@cases(
    f"HTTP/1.1 200 OK\r\nContent-Length: {'9' * 5000}", "HTTP/1.1 200 OK\r\nContent-Length: -5",
    "HTTP/1.1 200 OK\r\nContent-Length: 1e3", "HTTP/1.1 200 OK\r\nContent-Length: \u00b2",
    f"HTTP/1.1 206 Partial\r\nContent-Range: bytes {'1' * 5000}-{'1' * 5000}/{'1' * 5000}",
    "HTTP/1.1 206 Partial\r\nContent-Range: bytes some-more/all",
    f"HTTP/1.1 416 No\r\nContent-Range: bytes */{'9' * 5000}",
)  # fmt: skip
def test_sizes_that_are_no_numbers_are_refused(tmp_path, *, head):
    def answer(connection, request):
        connection.sendall(head.encode() + b"\r\n\r\n" + b"x" * 100)

    (tmp_path / "a.part").write_bytes(CONTENT)
    with serve_raw(answer) as address:
        note = {"address": f"{address}/a", "version": "1"}
        (tmp_path / "a.part.json").write_text(json.dumps(note))
        with pytest.raises(Unreachable, match=r"expected sizes in bytes as Content-(Length|Range), found"):
            download(f"{address}/a", str(tmp_path / "a"), patience=QUICK)


def test_a_server_that_breaks_off_after_each_byte_is_given_up(tmp_path):
    requests = []

    def answer(connection, request):
        requests.append(request)
        done = len(requests) - 1
        state = "200 OK" if not done else f"206 Partial\r\nContent-Range: bytes {done}-999999/1000000"
        head = f'HTTP/1.1 {state}\r\nETag: "v"\r\nContent-Length: {1000000 - done}\r\n\r\n'
        connection.sendall(head.encode() + b"x")

    with serve_raw(answer) as address, pytest.raises(Unreachable, match="broke after 3 of 1,000,000"):
        download(f"{address}/a", str(tmp_path / "a"), patience=QUICK)
    assert len(requests) == QUICK.attempts


def test_a_server_that_starts_again_and_again_is_given_up(server, tmp_path):
    # Parts of another version every other time: as much arrives as before, and never more.
    server.ignores_if_range, server.cut_after = True, [100_000, 0] * 50

    def change(number):
        server.files["/a.bin"] = CONTENT + str(number).encode()

    server.on_request = change
    with pytest.raises(Unreachable, match=r"broke after|another version"):
        download(f"{server.address}/a.bin", str(tmp_path / "a"), patience=QUICK)


@cases("HTTP/1.1 200 OK", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked")
def test_a_dripping_server_is_given_up_and_what_came_is_kept(tmp_path, monkeypatch, *, head):
    monkeypatch.setattr(watched_connection, "_WINDOW_SECONDS", 0.05)
    piece = b"1\r\nx\r\n" if "chunked" in head else b"x"
    with (
        serve_raw(_answering(head + '\r\nETag: "1"', piece, pause=0.01)) as address,
        pytest.raises(Unreachable, match=r"bytes arrived in .* s, at least 5,000 a second"),
    ):
        download(f"{address}/a", str(tmp_path / "a"), patience=QUICK)
    assert 0 < (tmp_path / "a.part").stat().st_size < 1000


@cases(*itertools.product(["pipe", "link", "folder", "device"], ["a.bin.part", "a.bin.part.json"]))
def test_what_is_no_file_is_neither_waited_for_nor_followed(server, tmp_path, *, kind, name):
    folder, victim = tmp_path / "cache", tmp_path / "victim"
    folder.mkdir()
    victim.write_bytes(CONTENT[:1000])
    etag = {"address": f"{server.address}/a.bin", "version": '"1"'}
    (folder / "a.bin.part.json").write_text(json.dumps(etag))
    (folder / name).unlink(missing_ok=True)
    make = {
        "pipe": os.mkfifo,
        "link": lambda path: os.symlink(victim, path),
        "folder": os.mkdir,
        "device": lambda path: os.symlink("/dev/zero", path),
    }
    make[kind](folder / name)
    assert _fetch(server, folder) == CONTENT
    assert victim.read_bytes() == CONTENT[:1000]


def test_a_disk_that_is_too_small_is_said_before_it_is_full(server, tmp_path, monkeypatch):
    usage = downloads.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(downloads.shutil, "disk_usage", lambda path: usage._replace(free=1000))
    refused(StorageError, "DETFLOW_CACHE", _fetch, server, tmp_path)


def test_a_disk_that_fills_up_keeps_what_has_arrived(server, tmp_path):
    # What /dev/full is for: every write to it fails as on a full disk.
    part = tmp_path / "a.bin.part"
    os.symlink("/dev/full", part)

    class Full(downloads._Part):
        def discard(self):
            pass

    with pytest.raises(OSError, match="No space"):
        full = Full(str(tmp_path / "a.bin"), MOST)
        downloads._transfer(f"{server.address}/a.bin", full, lambda update: None)


def test_progress_has_a_rate_and_an_end(server, tmp_path, monkeypatch):
    server.files["/a.bin"] = os.urandom(3_000_000)
    monkeypatch.setattr(downloads, "_REPORT_SECONDS_IN_LOGS", 0.0)
    updates = []
    _fetch(server, tmp_path, progress=updates.append)
    assert updates[-1].finished and updates[-1].total == 3 and updates[-1].rate > 0
    assert all(update.eta_seconds >= 0 for update in updates[1:])


@cases("?token=tok-SENTINEL", "?sv=1&sig=a%2Bb%2FSENTINEL")
def test_secrets_of_an_address_are_in_no_message_log_or_note(tmp_path, caplog, *, secret):
    def answer(connection, request):
        line = request.split(b"\r\n")[0]
        reason = line + b" " + urllib.parse.unquote_to_bytes(line)
        connection.sendall(b"HTTP/1.1 503 " + reason + b"\r\n\r\n")

    with serve_raw(answer) as address, pytest.raises(Unreachable, match="answers 503") as raised:
        download(f"{address}/a{secret}", str(tmp_path / "a"), patience=QUICK)
    with serve({"/a": CONTENT}) as server, pytest.raises(Unreachable):
        server.cut_after = [100, 0, 0, 0]
        download(f"{server.address}/a{secret}", str(tmp_path / "a"), patience=QUICK)
    note = (tmp_path / "a.part.json").read_text()
    logged = "".join(CleanFormatter().format(record) for record in caplog.records)
    assert logged and "SENTINEL" not in f"{raised.value}{logged}{note}"


def test_name_and_password_go_to_their_host_and_into_no_file(server, tmp_path, caplog):
    with serve({"/a.bin": CONTENT}) as elsewhere:
        server.redirects = {"/moved": f"{elsewhere.address}/a.bin"}
        server.cut_after, elsewhere.cut_after = [1000, 0, 0, 0], []
        address = server.address.replace("http://", "http://me:s%40cret@")
        with pytest.raises(Unreachable) as raised:
            download(f"{address}/a.bin", str(tmp_path / "a"), patience=QUICK)
        kept = "".join(path.read_bytes().decode("latin-1") for path in tmp_path.glob("*.json"))
        assert "cret" not in f"{raised.value}{caplog.text}{kept}"
        server.cut_after = []
        download(f"{address}/a.bin", str(tmp_path / "a"), patience=QUICK)
        assert set(server.authorizations) == {"Basic bWU6c0BjcmV0"}
        download(f"{address}/moved", str(tmp_path / "b"), patience=QUICK)
        assert elsewhere.authorizations == [None]
