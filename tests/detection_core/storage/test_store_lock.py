import contextlib
import datetime
import threading
import time

import pytest
from botocore.exceptions import ReadTimeoutError
from moto.backends import get_backend

from detection_core.errors import DataError, StorageError
from detection_core.storage import files, store_lock
from detection_core.storage.schemes import store_of
from tests.support.object_store import s3_server
from tests.support.threads import at_once


@pytest.fixture(scope="module")
def server():
    with s3_server() as bucket:
        yield bucket


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
        with store_lock.lock(path):
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
        with store_lock.lock(path):
            taken.set()

    waiter = threading.Thread(target=wait)
    with store_lock.lock(path):
        waiter.start()
        while len(versions) < 5:
            versions.add(store_of(path).head(path).version)
        assert not taken.is_set()
    waiter.join(60)
    assert taken.is_set()


def test_a_write_whose_answer_was_lost_is_known_as_ours(path):
    store = store_of(path)
    written = store.write_if(path, b"mine")
    assert store.write_if(path, b"mine") == written
    assert store.write_if(path, b"other") is None
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
    with store_lock.lock(path) as confirm:
        for times in (1, 3):
            for _ in range(times):
                with _lost_answers(path), pytest.raises(DataError, match="expected an answer"):
                    confirm()
            confirm()
        with _lost_answers(path), pytest.raises(DataError):
            confirm()
    assert files.read_bytes(path).startswith(b"free ")
    lost = contextlib.ExitStack()
    with lost, store_lock.lock(path):
        lost.enter_context(_lost_answers(path))
    assert "could not be released" in caplog.text


def test_a_holder_that_stood_still_is_told_and_leaves_the_lock_to_its_new_holder(path):
    for answered in (True, False):
        with (
            pytest.raises(StorageError, match="another writer took it over"),
            store_lock.lock(f"{path}{answered}") as confirm,
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
