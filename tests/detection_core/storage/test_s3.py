"""S3, its connection, and the lock that its conditional writes make."""

import contextlib
import datetime
import os
import socket
import struct
import threading
import time
import types

import pytest
from botocore.exceptions import ReadTimeoutError
from moto.backends import get_backend

from detection_core.errors import ConfigError, DataError, StorageError
from detection_core.storage import files, object_store, store_connection, store_lock
from detection_core.storage.files import store_of
from tests.support.cases import cases, refused
from tests.support.local_server import serve_raw
from tests.support.object_store import dead_server, s3_server, without_pauses
from tests.support.storage_faults import watched
from tests.support.threads import at_once


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
    monkeypatch.setenv("AWS_ENDPOINT_URL", "not a url")
    refused(ConfigError, "expected a URL, found 'not a url'", files.exists, f"{server}/a")

    def answer(connection, request):
        connection.sendall(b"HTTP/1.1 404 None\r\nContent-Length: 0\r\n\r\n")

    with serve_raw(answer) as address:
        _use(monkeypatch)
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        for operation in (files.exists, files.is_dir, files.list_dir):
            refused(DataError, "the bucket does not exist", operation, "s3://bucket/a")
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
    assert "SENTINEL" not in str(refused(ConfigError, message, files.read_text, "s3://bucket/a"))


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


@cases(("s3", "s3fs", "s3"), ("gs", "gcsfs", "gcs"), ("az", "adlfs", "azure"))
def test_a_missing_package_is_one_message_with_the_line_for_pip(monkeypatch, *, scheme, module, extra):
    monkeypatch.setattr(store_connection, "_connected", {})

    store_of(f"{scheme}://")  # imports the store's module, which the next line would hide

    def absent(name):
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(store_connection.importlib, "import_module", absent)
    with pytest.raises(ConfigError, match=rf"expected {module} .*`pip install 'detflow\[{extra}\]'`"):
        files.exists(f"{scheme}://bucket/a")


def test_a_connection_is_made_once_and_errors_of_the_store_are_translated(monkeypatch):
    store = store_of("s3://")
    with s3_server():
        first = store.file_system
        assert store.file_system is first
        monkeypatch.setattr(os, "getpid", lambda: -1)
        assert store.file_system is not first
    with dead_server():
        assert store.file_system is not first
    for error, kind in ((TimeoutError("late"), DataError), (FileNotFoundError("a"), FileNotFoundError)):
        with pytest.raises(kind, match="s3://bucket/a"), store._answering("s3://bucket/a"):
            raise error
    for error in (KeyError("a mistake"), OSError(28, "No space left on device")):
        with pytest.raises(type(error)) as caught, store._answering("s3://bucket/a"):
            raise error
        assert caught.value is error


@pytest.fixture
def path(server, request, monkeypatch):
    monkeypatch.setattr(store_lock, "_WAIT_SECONDS", 0.01)
    return f"{server}/{request.node.name}/.lock"


def test_of_many_that_find_a_dead_holder_one_takes_over(path, monkeypatch):
    monkeypatch.setattr(store_lock, "_WAIT_SECONDS", 0.1)
    files.write_bytes(path, b"somebody who was killed")
    (account,) = get_backend("s3").values()
    written = account["aws"].buckets["bucket"].keys[path.removeprefix("s3://bucket/")]
    written.last_modified -= datetime.timedelta(seconds=store_lock._STALE_SECONDS + 1)
    held, most = [], []

    def work(_):
        with files.exclusive(path):
            held.append(1)
            most.append(len(held))
            time.sleep(0.05)
            held.pop()

    at_once(range(5), work)
    assert max(most) == 1


def test_a_lock_that_is_held_is_renewed_again_and_again_and_not_taken_over(path, monkeypatch):
    monkeypatch.setattr(store_lock, "_RENEW_SECONDS", 0.01)
    versions, taken = set(), threading.Event()

    def wait():
        with files.exclusive(path):
            taken.set()

    waiter = threading.Thread(target=wait)
    with files.exclusive(path):
        waiter.start()
        while len(versions) < 5:
            versions.add(store_of(path).head(path).version)
        assert not taken.is_set()
    waiter.join(60)
    assert taken.is_set()


def test_a_write_whose_answer_was_lost_is_known_as_ours(path):
    store = store_of(path)
    written = store.write_if(path, b"mine")
    assert store.write_if(path, b"mine") == written and store.write_if(path, b"other") is None
    assert store.write_if(path, b"other", written) and store.write_if(path, b"mine", written) is None


@contextlib.contextmanager
def _lost_answers(path):
    """Let each write be applied and its answer be lost."""

    def lose(**_):
        raise ReadTimeoutError(endpoint_url=path)

    events = store_of(path).file_system.s3.meta.events
    events.register_first("after-call.s3.PutObject", lose)
    try:
        yield
    finally:
        events.unregister("after-call.s3.PutObject", lose)


def test_a_lost_answer_is_no_lost_lock_nor_lost_work(path, caplog):
    with files.exclusive(path) as confirm:
        for times in (1, 3):
            for _ in range(times):
                with _lost_answers(path), pytest.raises(DataError, match="expected an answer"):
                    confirm()
            confirm()
        with _lost_answers(path), pytest.raises(DataError):
            confirm()
    assert files.read_bytes(path).startswith(b"free ")
    lost = contextlib.ExitStack()
    with lost, files.exclusive(path):
        lost.enter_context(_lost_answers(path))
    assert "could not be released" in caplog.text


def test_a_holder_that_stood_still_is_told_and_leaves_the_lock_to_its_new_holder(path):
    for answered in (True, False):
        with (
            pytest.raises(StorageError, match="another writer took it over"),
            files.exclusive(f"{path}{answered}") as confirm,
        ):
            with (
                contextlib.nullcontext() if answered else _lost_answers(path),
                contextlib.suppress(DataError),
            ):
                confirm()
            taken = store_lock.unique_content()
            files.write_bytes(f"{path}{answered}", taken)
            confirm()
        assert files.read_bytes(f"{path}{answered}") == taken
