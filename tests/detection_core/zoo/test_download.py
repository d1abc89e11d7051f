"""Downloads from a server on this machine, honest and broken."""

import os
import socket

import pytest

from detection_core.errors import StorageError
from detection_core.zoo import download as downloads
from detection_core.zoo.download import Patience, Unreachable, download
from tests.detection_core.zoo.weights_server import serve

CONTENT = os.urandom(300_000)
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


def test_a_file_arrives_whole_and_leaves_nothing_beside_it(server, tmp_path):
    assert _fetch(server, tmp_path) == CONTENT
    assert server.requests == [("/a.bin", "")]


def test_a_broken_transfer_goes_on_where_it_stopped(server, tmp_path):
    server.cut_after = [100_000, 50_000]
    assert _fetch(server, tmp_path) == CONTENT
    assert [asked for _, asked in server.requests] == ["", "bytes=100000-", "bytes=150000-"]
    assert server.sent == len(CONTENT)


def test_another_process_goes_on_with_what_a_killed_one_has_left(server, tmp_path):
    server.cut_after = [100_000, 0, 0, 0, 0]
    with pytest.raises(Unreachable, match="broke after 100,000 of 300,000 bytes"):
        download(f"{server.address}/a.bin", str(tmp_path / "a.bin"), patience=QUICK)
    server.cut_after, server.sent = [], 0
    assert _fetch(server, tmp_path) == CONTENT
    assert server.sent == 200_000


def test_a_server_without_ranges_starts_again(server, tmp_path):
    server.ranges, server.cut_after = False, [100_000]
    assert _fetch(server, tmp_path) == CONTENT
    assert server.sent == 100_000 + len(CONTENT)


def test_a_version_that_cannot_be_told_is_not_gone_on_with(server, tmp_path):
    server.validator, server.cut_after = False, [100_000]
    assert _fetch(server, tmp_path) == CONTENT
    assert [asked for _, asked in server.requests] == ["", ""]


@pytest.mark.parametrize("careless", [False, True])
def test_a_file_that_changes_in_the_middle_is_fetched_anew(server, tmp_path, careless):
    changed = os.urandom(310_000)

    def change(number):
        if number == 2:
            server.files["/a.bin"] = changed

    server.on_request, server.cut_after, server.ignores_if_range = change, [100_000], careless
    assert _fetch(server, tmp_path) == changed


def test_what_had_arrived_whole_is_not_fetched_again(server, tmp_path):
    server.cut_after = [100_000, 0, 0, 0]
    with pytest.raises(Unreachable):
        download(f"{server.address}/a.bin", str(tmp_path / "a.bin"), patience=QUICK)
    (tmp_path / "a.bin.part").write_bytes(CONTENT)
    server.sent = 0
    assert _fetch(server, tmp_path) == CONTENT
    assert server.sent == 0


def test_more_than_there_ever_was_is_fetched_anew(server, tmp_path):
    server.cut_after = [100_000, 0, 0, 0]
    with pytest.raises(Unreachable):
        download(f"{server.address}/a.bin", str(tmp_path / "a.bin"), patience=QUICK)
    (tmp_path / "a.bin.part").write_bytes(CONTENT + b"more")
    assert _fetch(server, tmp_path) == CONTENT


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_server_in_trouble_is_asked_again(server, tmp_path, status):
    server.statuses = [status, status]
    assert _fetch(server, tmp_path) == CONTENT
    server.statuses = [status] * 3
    with pytest.raises(Unreachable, match=f"answers {status}"):
        download(f"{server.address}/a.bin", str(tmp_path / "b.bin"), patience=QUICK)


@pytest.mark.parametrize("status", [403, 410])
def test_a_refusal_is_final(server, tmp_path, status):
    server.statuses = [status]
    with pytest.raises(Unreachable, match=f"answers {status}"):
        _fetch(server, tmp_path)
    assert len(server.requests) == 1


def test_a_missing_file_is_said(server, tmp_path):
    with pytest.raises(Unreachable, match="answers 404"):
        _fetch(server, tmp_path, "/none")
    assert not list(tmp_path.iterdir())


def test_redirects_are_followed_and_circles_are_not(server, tmp_path):
    server.redirects = {"/old": "/older", "/older": "/a.bin", "/x": "/y", "/y": "/x"}
    assert _fetch(server, tmp_path, "/old") == CONTENT
    with pytest.raises(Unreachable, match="in circles"):
        download(f"{server.address}/x", str(tmp_path / "b"), patience=QUICK)


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/a"])
def test_redirects_lead_to_no_other_protocol(server, tmp_path, target):
    server.redirects = {"/x": target}
    with pytest.raises(Unreachable):
        _fetch(server, tmp_path, "/x")


def test_https_never_becomes_http(tmp_path):
    handler = downloads._Redirects()
    request = downloads.urllib.request.Request("https://example.org/a")
    with pytest.raises(Unreachable, match="from https to http:"):
        handler.redirect_request(request, None, 302, "Found", {}, "http://example.org/a")


def test_without_a_size_the_end_is_the_end(server, tmp_path):
    server.length = False
    assert _fetch(server, tmp_path) == CONTENT


def test_without_a_network_one_attempt_is_enough(tmp_path, caplog):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(Unreachable, match="refused"):
        download(f"http://127.0.0.1:{port}/a", str(tmp_path / "a"))
    assert not caplog.records


def test_no_more_is_taken_than_weights_ever_have(server, tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "MOST_BYTES", 200_000)
    with pytest.raises(Unreachable, match="expected at most 200,000"):
        _fetch(server, tmp_path)
    server.length = False
    with pytest.raises(Unreachable, match="more than 200,000"):
        download(f"{server.address}/a.bin", str(tmp_path / "b"), patience=QUICK)


def test_a_disk_that_is_too_small_is_said_before_it_is_full(server, tmp_path, monkeypatch):
    usage = downloads.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(downloads.shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(StorageError, match="DETFLOW_CACHE"):
        _fetch(server, tmp_path)


def test_a_disk_that_fills_up_keeps_what_has_arrived(server, tmp_path):
    # What /dev/full is for: every write to it fails as on a full disk.
    part = tmp_path / "a.bin.part"
    os.symlink("/dev/full", part)

    class Full(downloads._Part):
        def begin(self, address, version):
            pass

    with pytest.raises(OSError, match="No space"):
        downloads._transfer(f"{server.address}/a.bin", Full(str(tmp_path / "a.bin")), lambda update: None)


def test_progress_has_a_rate_and_an_end(server, tmp_path, monkeypatch):
    server.files["/a.bin"] = os.urandom(3_000_000)
    monkeypatch.setattr(downloads, "_REPORT_SECONDS_IN_LOGS", 0.0)
    updates = []
    _fetch(server, tmp_path, progress=updates.append)
    assert updates[-1].finished and updates[-1].total == 3 and updates[-1].rate > 0
    assert all(update.eta_seconds >= 0 for update in updates[1:])


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
