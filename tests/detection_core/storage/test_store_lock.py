import contextlib
import time

import pytest
from botocore.exceptions import ReadTimeoutError

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


def _hold(path, count, seconds=0.05):
    """Let threads hold a lock one after the other; return how many held it together at most."""
    held, most = [], []

    def work(_):
        with store_lock.lock(path):
            held.append(1)
            most.append(len(held))
            time.sleep(seconds)
            held.pop()

    at_once(range(count), work)
    return max(most)


def test_of_many_that_find_a_dead_holder_one_takes_over(path, monkeypatch):
    files.write_bytes(path, b"somebody who was killed")
    monkeypatch.setattr(store_lock, "_STALE_SECONDS", 2.0)
    monkeypatch.setattr(store_lock, "_WAIT_SECONDS", 0.1)
    time.sleep(3.1)  # LastModified counts whole seconds
    assert _hold(path, 5) == 1


def test_a_lock_that_is_held_for_long_is_renewed_and_not_taken_over(path, monkeypatch):
    monkeypatch.setattr(store_lock, "_STALE_SECONDS", 3.0)
    monkeypatch.setattr(store_lock, "_RENEW_SECONDS", 0.5)
    monkeypatch.setattr(store_lock, "_WAIT_SECONDS", 0.1)
    assert _hold(path, 2, seconds=4.5) == 1


def test_a_holder_that_stood_still_is_told_and_leaves_the_lock_to_its_new_holder(path, monkeypatch):
    with pytest.raises(StorageError, match="another writer took it over"), store_lock.lock(path) as confirm:
        confirm()
        taken = store_lock.unique_content()
        files.write_bytes(path, taken)
        confirm()
    assert files.read_bytes(path) == taken


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


def test_a_lost_answer_is_no_lost_lock(path):
    with store_lock.lock(path) as confirm:
        for times in (1, 3):
            for _ in range(times):
                with _lost_answers(path), pytest.raises(DataError, match="expected an answer"):
                    confirm()
            confirm()
        with _lost_answers(path), pytest.raises(DataError):
            confirm()
    assert files.read_bytes(path).startswith(b"free ")


def test_work_under_a_lock_is_done_though_its_release_is_not_answered(path, caplog):
    lost = contextlib.ExitStack()
    with lost, store_lock.lock(path):
        lost.enter_context(_lost_answers(path))
    assert "could not be released" in caplog.text


def test_a_lock_that_was_taken_over_after_a_lost_answer_is_lost(path):
    with pytest.raises(StorageError, match="another writer took it over"), store_lock.lock(path) as confirm:
        with _lost_answers(path), pytest.raises(DataError):
            confirm()
        taken = store_lock.unique_content()
        files.write_bytes(path, taken)
        confirm()
    assert files.read_bytes(path) == taken
