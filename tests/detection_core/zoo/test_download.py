"""Downloads, the connection they come over, and the digests they are held against."""

import hashlib
import io
import itertools
import json
import logging
import os
import re
import socket
import time
import urllib.parse

import pytest
import requests

from detection_core.errors import StorageError
from detection_core.redaction import CleanFormatter
from detection_core.zoo import cache as caches
from detection_core.zoo import download as downloads
from detection_core.zoo.cache import file_digest
from detection_core.zoo.download import Unreachable
from tests.support.cases import cases, refused
from tests.support.local_server import endless, once, serve, serve_raw

CONTENT = os.urandom(300_000)
MOST = 10_000_000


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(downloads, "_ATTEMPTS", 3)
    monkeypatch.setattr(downloads, "_WAIT_SECONDS", 0.001)


def download(address, folder, name="a.bin", **options):
    downloads.download(address, str(folder / name), **{"most_bytes": MOST, **options})


def _fetch(server, tmp_path, path="/a.bin", **options):
    download(f"{server.address}{path}", tmp_path, **options)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.bin"]
    return (tmp_path / "a.bin").read_bytes()


@pytest.fixture
def server():
    with serve({"/a.bin": CONTENT}) as behaviour:
        yield behaviour


# What the server cannot do, where it breaks off, and which parts it is then asked for.
@cases(
    ("", [], [""]),
    ("length", [], [""]),
    ("", [100_000, 50_000], ["", "bytes=100000-", "bytes=150000-"]),
    ("ranges", [100_000], ["", "bytes=100000-"]),
    ("validator", [100_000], ["", ""]),
)
def test_a_broken_transfer_goes_on_or_starts_again(tmp_path, *, lacking, cuts, asked):
    with serve({"/a.bin": CONTENT}) as server:
        if lacking:
            setattr(server, lacking, False)
        server.cut_after = list(cuts)
        assert _fetch(server, tmp_path) == CONTENT
    assert server.requests == [("/a.bin", part) for part in asked]
    assert server.sent == len(CONTENT) + (sum(cuts) if lacking else 0)


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
    refused(Unreachable, "broke after 100,000 of 300,000 bytes", _fetch, server, tmp_path)
    (tmp_path / "a.bin.part").write_bytes(left)
    server.cut_after, server.sent = [], 0
    assert _fetch(server, tmp_path) == CONTENT and server.sent == sent


@cases((500, 3), (503, 3), (429, 3), (403, 1), (410, 1))
def test_a_server_in_trouble_is_asked_again_and_a_refusal_is_final(server, tmp_path, *, status, attempts):
    server.statuses, server.requests = [status] * attempts, []
    refused(Unreachable, f"answers {status}", _fetch, server, tmp_path)
    assert len(server.requests) == attempts and not list(tmp_path.iterdir())
    server.statuses = [status] * (attempts - 1)
    assert _fetch(server, tmp_path) == CONTENT


def test_redirects_are_followed_but_in_no_circles_and_to_no_other_protocol(server, tmp_path):
    server.redirects = {"/old": "/older", "/older": "/a.bin", "/x": "/y", "/y": "/x"}
    server.redirects |= {"/file": "file:///etc/passwd", "/ftp": "ftp://127.0.0.1/a"}
    assert _fetch(server, tmp_path, "/old") == CONTENT
    places = {"/x": "in circles", "/file": "", "/ftp": "from http to ftp:", "/none": "answers 404"}
    for path, message in places.items():
        refused(Unreachable, message, download, f"{server.address}{path}", tmp_path, "b")
    refused(Unreachable, "the address is invalid", download, "http://[::1/a", tmp_path, "b")


def test_without_a_network_one_attempt_is_enough(tmp_path, caplog):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/a"
    refused(Unreachable, "refused", lambda: download(address, tmp_path))
    assert not caplog.records


@cases(True, False)
def test_of_a_file_that_is_too_large_nothing_is_kept(server, tmp_path, *, size_is_known):
    server.length = size_is_known
    message = r"expected at most 200,000 bytes, found .*[23]00,000"
    refused(Unreachable, message, lambda: _fetch(server, tmp_path, most_bytes=200_000))
    assert not list(tmp_path.iterdir())


@cases("200 OK", "200 OK\r\nTransfer-Encoding: chunked", "206 Partial Content\r\nContent-Range: bytes 0-9/*")
def test_an_endless_answer_ends_and_leaves_nothing(tmp_path, *, head):
    piece = b"10000\r\n%s\r\n" if "chunked" in head else b"%s"
    with serve_raw(endless(f"HTTP/1.1 {head}\r\n\r\n".encode(), piece % (b"x" * 65_536))) as address:
        refused(Unreachable, "sends more than", download, address, tmp_path)
    assert not list(tmp_path.iterdir())


@cases(
    f"200 OK\r\nContent-Length: {'9' * 5000}", "200 OK\r\nContent-Length: -5",
    "200 OK\r\nContent-Length: 1e3", "200 OK\r\nContent-Length: \u00b2",
    f"206 Partial\r\nContent-Range: bytes {'1' * 5000}-{'1' * 5000}/{'1' * 5000}",
    "206 Partial\r\nContent-Range: bytes some-more/all", f"416 No\r\nContent-Range: bytes */{'9' * 5000}",
)  # fmt: skip
def test_sizes_that_are_no_numbers_are_refused(tmp_path, *, head):
    (tmp_path / "a.bin.part").write_bytes(CONTENT)
    message = r"expected sizes in bytes as Content-(Length|Range), found"
    with serve_raw(once(f"HTTP/1.1 {head}\r\n\r\n".encode() + b"x" * 100)) as address:
        note = {"address": f"{address}/a", "version": "1"}
        (tmp_path / "a.bin.part.json").write_text(json.dumps(note))
        refused(Unreachable, message, download, f"{address}/a", tmp_path)


def test_a_server_that_breaks_off_or_starts_again_and_again_is_given_up(server, tmp_path):
    heads = []

    def answer(connection, request):
        heads.append(request)
        done = len(heads) - 1
        state = "200 OK" if not done else f"206 Partial\r\nContent-Range: bytes {done}-999999/1000000"
        head = f'HTTP/1.1 {state}\r\nETag: "v"\r\nContent-Length: {1000000 - done}\r\n\r\n'
        connection.sendall(head.encode() + b"x")

    with serve_raw(answer) as address:
        refused(Unreachable, "broke after 3 of 1,000,000", download, address, tmp_path)
    assert len(heads) == downloads._ATTEMPTS
    (tmp_path / "more").mkdir()
    # Parts of another version every other time: as much arrives as before, and never more.
    server.ignores_if_range, server.cut_after = True, [100_000, 0] * 50
    server.on_request = lambda number: server.files.update({"/a.bin": CONTENT + str(number).encode()})
    refused(Unreachable, "broke after|another version", _fetch, server, tmp_path / "more")


@cases("HTTP/1.1 200 OK", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked")
def test_a_dripping_server_is_given_up_and_what_came_is_kept(tmp_path, monkeypatch, *, head):
    monkeypatch.setattr(downloads, "_WINDOW_SECONDS", 0.05)
    piece = b"1\r\nx\r\n" if "chunked" in head else b"x"
    with serve_raw(endless(head.encode() + b'\r\nETag: "1"\r\n\r\n', piece, pause=0.01)) as address:
        refused(Unreachable, "arrived in .* s, at least 5,000 a second", download, address, tmp_path)
    assert 0 < (tmp_path / "a.bin.part").stat().st_size < 1000


@cases(*itertools.product(["pipe", "link", "folder", "device"], ["a.bin.part", "a.bin.part.json"]))
def test_what_is_no_file_is_neither_waited_for_nor_followed(server, tmp_path, *, kind, name):
    folder, victim = tmp_path / "cache", tmp_path / "victim"
    folder.mkdir()
    victim.write_bytes(CONTENT[:1000])
    etag = {"address": f"{server.address}/a.bin", "version": '"1"'}
    (folder / "a.bin.part.json").write_text(json.dumps(etag))
    (folder / name).unlink(missing_ok=True)
    if kind in ("pipe", "folder"):
        (os.mkfifo if kind == "pipe" else os.mkdir)(folder / name)
    else:
        os.symlink(victim if kind == "link" else "/dev/zero", folder / name)
    assert _fetch(server, folder) == CONTENT and victim.read_bytes() == CONTENT[:1000]


def test_a_disk_that_is_too_small_is_said_before_it_is_full_and_then(server, tmp_path, monkeypatch):
    with monkeypatch.context() as small:
        usage = downloads.shutil.disk_usage(tmp_path)
        small.setattr(downloads.shutil, "disk_usage", lambda path: usage._replace(free=1000))
        refused(StorageError, "DETFLOW_CACHE", _fetch, server, tmp_path)
    # What /dev/full is for: every write to it fails as on a full disk.
    os.symlink("/dev/full", tmp_path / "a.bin.part")
    monkeypatch.setattr(downloads._Part, "discard", lambda part: None)
    full = downloads._Part(str(tmp_path / "a.bin"), MOST)
    address = f"{server.address}/a.bin"
    refused(OSError, "No space", downloads._transfer, address, full)


def test_progress_has_a_rate_and_an_end(server, tmp_path, caplog):
    server.files["/a.bin"] = os.urandom(2_999_999)
    with caplog.at_level(logging.INFO):
        _fetch(server, tmp_path)
    assert re.fullmatch(r"download \| megabyte 3/3 \| [\d.]+ megabytes/s", caplog.messages[-1])


@cases("?token=tok-SENTINEL", "?sv=1&sig=a%2Bb%2FSENTINEL")
def test_secrets_of_an_address_are_in_no_message_log_or_note(tmp_path, caplog, *, secret):
    def answer(connection, request):
        line = request.split(b"\r\n")[0]
        reason = line + b" " + urllib.parse.unquote_to_bytes(line)
        connection.sendall(b"HTTP/1.1 503 " + reason + b"\r\n\r\n")

    with serve_raw(answer) as address:
        error = refused(Unreachable, "answers 503", download, f"{address}/a{secret}", tmp_path)
    with serve({"/a": CONTENT}) as server:
        server.cut_after = [100, 0, 0, 0]
        refused(Unreachable, "", download, f"{server.address}/a{secret}", tmp_path)
    note = (tmp_path / "a.bin.part.json").read_text()
    logged = "".join(CleanFormatter().format(record) for record in caplog.records)
    assert logged and "SENTINEL" not in f"{error}{logged}{note}"


def test_name_and_password_go_to_their_host_and_into_no_file(server, tmp_path, caplog):
    address = server.address.replace("http://", "http://me:s%40cret@")
    server.cut_after = [1000, 0, 0, 0]
    error = refused(Unreachable, "", download, f"{address}/a.bin", tmp_path)
    kept = "".join(path.read_bytes().decode("latin-1") for path in tmp_path.glob("*.json"))
    assert "cret" not in f"{error}{caplog.text}{kept}"
    with serve({"/a.bin": CONTENT}) as elsewhere:
        server.cut_after, server.redirects = [], {"/moved": f"{elsewhere.address}/a.bin"}
        download(f"{address}/a.bin", tmp_path)
        assert set(server.authorizations) == {"Basic bWU6c0BjcmV0"}
        download(f"{address}/moved", tmp_path, "b")
        assert elsewhere.authorizations == [None]


@cases(b"", b"HTTP/1.1 200 OK\r\nX-")
def test_a_dripping_head_is_given_up(tmp_path, monkeypatch, *, head):
    monkeypatch.setattr(downloads, "_WINDOW_SECONDS", 0.05)
    for piece, pause in ((b"x", 0.01), (b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, 0.0)):
        with serve_raw(endless(b"" if pause == 0 else head, piece, pause=pause)) as address:
            refused(Unreachable, "no whole head of a response arrived in 0.05 s", download, address, tmp_path)


def test_a_slow_reader_is_not_the_servers_fault(tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "_WINDOW_SECONDS", 0.05)
    with (
        serve_raw(once(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc")) as address,
        downloads._session().get(address, stream=True, timeout=10) as response,
    ):
        time.sleep(0.1)
        assert b"".join(downloads._chunks(response)) == b"abc"


def test_a_redirect_s_body_is_not_read_and_https_stays_https(tmp_path):
    def answer(connection, request):
        if b"GET /there " in request:
            once(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfound")(connection, request)
        else:
            endless(b"HTTP/1.1 302 Found\r\nLocation: /there\r\n\r\n", b"x" * 1_000_000)(connection, request)

    with serve_raw(answer) as address:
        download(f"{address}/here", tmp_path)
    assert (tmp_path / "a.bin").read_bytes() == b"found"
    response = requests.Response()
    response.status_code, response.url, response.raw = 302, "https://example.org/a", io.BytesIO()
    for target in ("http://example.org/a", "ftp://example.org/a"):
        response.headers["Location"] = target
        refused(Unreachable, "from https to ", downloads._session().get_redirect_target, response)
    response.headers["Location"] = "/b"
    assert downloads._session().get_redirect_target(response) == "https://example.org/b"


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setenv("DETFLOW_CACHE", str(tmp_path))
    monkeypatch.setattr(caches, "_SETTLED_NS", -1)
    path = tmp_path / "zoo" / "ckpt-0.data"
    path.parent.mkdir()
    path.write_bytes(b"weights")
    return path


SMALL, LARGE = (hashlib.sha256(data).hexdigest() for data in (b"weights", b"WEIGHTS"))


def test_a_file_that_stays_is_read_once_unless_it_was_written_just_now(tmp_path, file, monkeypatch):
    reads, whole = [], hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda *a: reads.append(a) or whole(*a))
    with monkeypatch.context() as young:
        young.setattr(caches, "_SETTLED_NS", 60_000_000_000)
        for _ in range(2):
            file_digest(str(file))
    assert len(reads) == 2 and not (tmp_path / "digests").exists()
    for _ in range(3):
        assert file_digest(str(file)) == SMALL
        assert file_digest(str(file), "md5") == hashlib.md5(b"weights").hexdigest()
    assert len(reads) == 4


def test_every_change_is_seen_and_only_the_latest_checksums_are_kept(tmp_path, file, monkeypatch):
    monkeypatch.setattr(caches, "_KEPT_DIGESTS", 1)
    file_digest(str(file))
    before = file.stat()
    while time.time_ns() - before.st_ctime_ns < 20_000_000:  # a tick of the file system's clock
        time.sleep(0.005)
    file.write_bytes(b"WEIGHTS")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file_digest(str(file)) == LARGE
    other = file.with_name("other")
    other.write_bytes(b"weights")
    os.replace(other, file)
    assert file_digest(str(file)) == SMALL
    file.rename(other)
    file_digest(str(other))
    (note,) = (tmp_path / "digests").iterdir()
    assert json.loads(note.read_text()) == SMALL


@cases("", "[]", "3", f'"{LARGE}', "\xff", None)
def test_notes_of_something_else_are_written_again_where_they_can_be(file, *, text):
    root = file.parents[1]
    file_digest(str(file))
    (note,) = (root / "digests").iterdir()
    if text is None:
        note.unlink()
        note.mkdir()
    else:
        note.write_text(text, encoding="latin-1")
    assert file_digest(str(file)) == SMALL
    assert text is None or json.loads(note.read_text()) == SMALL
