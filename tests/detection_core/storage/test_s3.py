import socket
import struct
import types

import pytest

from detection_core.errors import ConfigError, DataError
from detection_core.storage import files, object_store
from detection_core.storage.schemes import store_of
from tests.support.cases import cases, refused
from tests.support.object_store import dead_server, s3_server, without_pauses
from tests.support.raw_server import serve_raw
from tests.support.storage_faults import watched


@pytest.fixture(scope="module")
def server():
    with s3_server() as bucket:
        yield bucket


@pytest.fixture
def root(server, request):
    return f"{server}/{request.node.name}"


def _use(monkeypatch):
    """Have an account of no server."""
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "key-of-the-test")


def test_a_folder_is_renamed_with_its_top_last_and_removed_with_its_top_first(root):
    for name in ("saved_model.pb", "variables/data", "assets/x/y"):
        files.write_text(f"{root}/from/{name}", name)
    with watched(remote=True) as changes:
        files.rename(f"{root}/from", f"{root}/to")
    copied = [name.rpartition("/to/")[2] for name in changes.names if name.startswith("CopyObject")]
    assert copied == ["assets/x/y", "variables/data", "saved_model.pb"]
    assert files.list_dir(root) == ["to"] and files.read_text(f"{root}/to/assets/x/y") == "assets/x/y"
    refused(FileNotFoundError, "", files.rename, f"{root}/from", f"{root}/to")
    for name in ("one", "one and more"):
        files.write_text(f"{root}/{name}", name)
    files.rename(f"{root}/one", f"{root}/two")
    assert files.list_dir(root) == ["one and more", "to", "two"]
    for name in ("saved_model.pb", "variables/data", "assets/x/y", "assets/x/z"):
        files.write_text(f"{root}/model/{name}", name)
    with watched(remote=True) as changes:
        files.remove_tree(f"{root}/model")
    names = [[key.rpartition("/model/")[2] for key in name.split()[1:]] for name in changes.names]
    assert [name[-1] for name in names] == ["saved_model.pb", "variables/data", "assets/x/z"]
    assert names[-1][-2:] == ["assets/x/y", "assets/x/z"]


def test_trees_travel_both_ways_and_a_large_file_in_parts(root, tmp_path, monkeypatch):
    (tmp_path / "here" / "sub").mkdir(parents=True)
    (tmp_path / "here" / "sub" / "large").write_bytes(bytes(range(256)) * 80_000)  # two uploaded parts
    (tmp_path / "here" / "small").write_text("x")
    with watched(remote=True) as changes:
        files.copy_tree(str(tmp_path / "here"), f"{root}/there")
    assert [name.split()[0] for name in changes.names] == ["PutObject", "CompleteMultipartUpload"]
    monkeypatch.setattr(object_store, "PART_BYTES", 1 << 20)  # of downloads; uploads have larger ones
    files.copy_tree(f"{root}/there", str(tmp_path / "back"))
    assert (tmp_path / "back" / "sub" / "large").read_bytes() == bytes(range(256)) * 80_000
    assert (tmp_path / "back" / "small").read_text() == "x"


def test_what_a_store_does_not_remove_is_an_error(root, monkeypatch):
    """DeleteObjects answers 200 and names what it kept: "DeleteObjects", Amazon S3 API Reference, Errors."""
    for name in ("a", "b"):
        files.write_text(f"{root}/{name}", name)
    system = store_of(root).file_system
    kept = {"Errors": [{"Key": "a", "Code": "AccessDenied", "Message": "Access Denied"}]}
    call = system.call_s3

    def answer(name, **request):
        return kept if name == "delete_objects" else call(name, **request)

    monkeypatch.setattr(system, "call_s3", answer)
    refused(DataError, r"s3://bucket/a: .*AccessDenied", files.remove_tree, root)


def test_what_no_server_answers_or_no_url_can_reach_is_one_error(server, monkeypatch):
    refused(DataError, "NoSuchBucket", files.read_text, "s3://nowhere/a")
    refused(ValueError, "mode 'a'", files.open_file, f"{server}/a", "a")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "not a url")
    refused(ConfigError, "expected a URL, found 'not a url'", files.exists, f"{server}/a")

    def answer(connection, request):
        connection.sendall(b"HTTP/1.1 404 None\r\nContent-Length: 0\r\n\r\n")

    with serve_raw(answer) as address:
        _use(monkeypatch)
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        for operation in (files.exists, files.is_dir, files.list_dir):
            refused(DataError, "no such bucket", operation, "s3://bucket/a")
    with dead_server() as bucket:
        found = r"expected an answer from the object store \(http://127"
        for operation in (files.read_bytes, files.exists, files.list_dir):
            error = refused(DataError, found, operation, f"{bucket}/a")
            assert "AWS_ENDPOINT_URL" in str(error) and error.where == f"{bucket}/a"
        refused(DataError, "expected an answer", files.write_text, f"{bucket}/a", "x")


@cases(
    ("AWS_SESSION_TOKEN", "sess-SENTINEL\nx", "AWS_SESSION_TOKEN: .*found a line break after 13 characters"),
    ("AWS_ACCESS_KEY_ID", "AKIA-SENTINEL\u2026", "AWS_ACCESS_KEY_ID: .*U.2026 after 13 characters"),
    ("AWS_ENDPOINT_URL", "http://user:pass-SENTINEL@127.0.0.1:9", "without user and password"),
)
def test_a_secret_that_cannot_be_sent_is_refused_and_not_told(monkeypatch, *, variable, value, message):
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    monkeypatch.setenv(variable, value)
    error = refused(ConfigError, message, files.read_text, "s3://bucket/a")
    assert "SENTINEL" not in str(error)


# "Error responses", Amazon S3 API Reference.
_ERRORS = {
    "403": b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>",
    "500": b"<Error><Code>InternalError</Code><Message>Please try again.</Message></Error>",
    "503": b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>",
}


@pytest.fixture
def faulty(monkeypatch):
    """A server that answers each GET with the next of some faults, the last one for ever."""
    server = types.SimpleNamespace(faults=[], requests=[])

    def answer(connection, request):
        server.requests.append(request)
        fault = server.faults.pop(0) if len(server.faults) > 1 else server.faults[0]
        if fault == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return
        status, body = (fault, _ERRORS[fault]) if fault in _ERRORS else ("200", b"0123456789")
        head = f"HTTP/1.1 {status} None\r\nContent-Length: {len(body) + 10 * (fault == 'cut')}\r\n"
        connection.sendall(f'{head}ETag: "1"\r\nConnection: close\r\n\r\n'.encode() + body)

    _use(monkeypatch)
    with serve_raw(answer) as address, without_pauses():
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        yield server


def test_faults_are_asked_again_a_few_times_and_are_one_error_then(faulty):
    for fault in ("500", "503", "reset", "cut"):
        faulty.faults, faulty.requests = [fault, "whole"], []
        assert files.read_bytes("s3://bucket/a") == b"0123456789", fault
        assert len(faulty.requests) == 2, fault
    for fault, requests, message in (
        ("403", 1, r"found AccessDenied \(Access Denied\); check the bucket's name"),
        ("500", 5, r"found InternalError \(Please try again.\)"),
        ("503", 5, r"found SlowDown"),
        ("reset", 10, r"expected an answer from the object store \(http://127"),
        ("cut", 3, r"expected an answer from the object store \(http://127"),
    ):
        faulty.faults, faulty.requests = [fault], []
        assert refused(DataError, message, files.read_bytes, "s3://bucket/a").where == "s3://bucket/a", fault
        # aiohttp itself asks once more after a reset.
        assert len(faulty.requests) == requests or (fault == "reset" and 5 <= len(faulty.requests) < 10), (
            fault
        )
