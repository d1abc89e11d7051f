"""Caches on disk, and local copies of what lies elsewhere."""

import dataclasses
import os
import time
from pathlib import Path

import google_crc32c
import pytest

from detection_core.data.sequence import SequenceOptions, ordered_records, shuffled_epochs, shuffled_files
from detection_core.errors import ConfigError, DataError
from detection_core.storage import files
from detection_core.storage import shard_cache as module
from detection_core.storage.disk_cache import Cache, entry_key
from detection_core.storage.files import local_copy
from detection_core.storage.shard_cache import Shard, ShardCache, shard_cache, uri_of
from tests.support.cases import refused
from tests.support.object_store import dead_server, s3_server
from tests.support.record_files import write_records
from tests.support.threads import at_once


@pytest.fixture(scope="module")
def bucket():
    with s3_server() as uri:
        yield uri


def _shard(bucket: str, name: str, data: bytes) -> Shard:
    files.write_bytes(f"{bucket}/{name}", data)
    checksum = google_crc32c.Checksum(data).hexdigest().decode()
    return Shard(uri=f"{bucket}/{name}", size=len(data), crc32c=checksum, examples=1)


@pytest.fixture(autouse=True)
def no_cache_of_the_process():
    shard_cache.cache_clear()
    yield
    shard_cache.cache_clear()


@pytest.fixture
def cache(tmp_path: Path) -> ShardCache:
    return ShardCache(str(tmp_path / "cache"), 10_000)


def test_the_oldest_copies_make_room_but_never_the_newest_and_a_reader_keeps_its_own(bucket, tmp_path):
    cache = ShardCache(str(tmp_path), 5 * 100)
    shards = [_shard(bucket, f"n{n}", bytes([n]) * 100) for n in range(30)]
    with open(cache.fetch(shards[0]), "rb") as reading:
        os.utime(reading.name, (1, 1))
        for shard in shards[1:]:
            cache.fetch(shard)
        assert not os.path.exists(reading.name) and reading.read() == bytes(100)
    # Whatever the limit, those that may not have been opened yet stay.
    assert len(os.listdir(tmp_path)) == module._NEVER_REMOVED
    assert os.path.exists(cache.fetch(shards[-1]))


def test_a_shard_is_fetched_once_by_many_threads_and_anew_when_its_object_changes(bucket, cache, monkeypatch):
    shard = _shard(bucket, "same", b"x" * 5000)
    found = at_once([shard] * 6, cache.fetch)
    assert len(set(found)) == 1 and os.listdir(cache.folder) == [Path(found[0]).name]
    _shard(bucket, "plain", b"one")
    first = cache.fetch(f"{bucket}/plain")
    _shard(bucket, "plain", b"two")
    second = cache.fetch(f"{bucket}/plain")
    assert [Path(p).read_bytes() for p in (first, second)] == [b"one", b"two"]
    shard = _shard(bucket, "a.tfrecord.gz", b"data")
    copy = cache.fetch(shard)
    assert Path(copy).read_bytes() == b"data" and copy.endswith(".tfrecord.gz")
    monkeypatch.setattr(files, "download", lambda *_: pytest.fail("fetched again"))
    assert cache.fetch(shard) == copy and ShardCache(cache.folder, 1).fetch(shard) == copy


def test_a_shard_that_was_changed_and_a_disk_that_is_full_are_named_with_what_to_do(
    bucket, cache, monkeypatch
):
    shard = _shard(bucket, "b", b"data")
    files.write_bytes(shard.uri, b"tada")
    assert refused(DataError, "found 4 with", cache.fetch, shard).where == shard.uri
    assert os.listdir(cache.folder) == []
    files.remove_tree(shard.uri)
    refused(DataError, "expected a shard of the examples, found none", cache.fetch, shard)
    shard = _shard(bucket, "c", b"data")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "download", full)
    refused(DataError, "No space left on device; free some, set DETFLOW_SHARD_CACHE", cache.fetch, shard)
    monkeypatch.setenv(module.GIGABYTES, "much")
    refused(ConfigError, "found 'much'", shard_cache)


def test_a_cache_removes_its_own_files_and_leftovers_of_killed_processes(tmp_path):
    cache = Cache(str(tmp_path / "a" / "b"), most_bytes=10, newest=1)
    assert cache.find("x") is None
    for age, key in ((30, "old"), (20, "read"), (10, "new")):
        with cache.add(key) as path:
            Path(path).write_bytes(bytes(5))
            assert cache.find(key) is None
        os.utime(cache.path(key), (1000 - age, 1000 - age))
    with pytest.raises(ZeroDivisionError), cache.add("failed") as path:
        Path(path).touch()
        raise ZeroDivisionError
    old, new, theirs = (Path(cache.path(n)) for n in ("old.partial", "new.partial", "theirs/deep/x"))
    theirs.parent.mkdir(parents=True)
    for path in (old, new, theirs):
        path.touch()
        os.utime(path, (1, 1) if path != new else None)
    assert cache.find("read") == cache.path("read")  # counts as used now
    cache.shrink()
    assert not old.exists()
    kept = [key for key in ("old", "read", "new", "failed") if os.path.exists(cache.path(key))]
    assert kept == ["read", "new"] and new.exists()
    dataclasses.replace(cache, most_bytes=0).shrink()
    assert os.path.exists(cache.path("read")) and not os.path.exists(cache.path("new")) and theirs.exists()


def test_keys_change_with_each_part_and_an_entry_has_one_writer_at_a_time(tmp_path):
    assert len({entry_key("ab", "c"), entry_key("a", "bc"), entry_key(b"abc"), entry_key()}) == 4
    cache, writing = Cache(str(tmp_path / "new")), []

    def write(number):
        with cache.exclusive("key"):
            writing.append(number)
            time.sleep(0.01)
            assert writing.pop() == number and not writing

    at_once(list(range(4)), write)


def test_a_failure_inside_tf_data_is_found_by_its_text(bucket, tmp_path, monkeypatch):
    shard = _shard(bucket, "e", b"data")
    monkeypatch.setenv(module.FOLDER, str(tmp_path))
    monkeypatch.setenv(module.GIGABYTES, "0.5")
    assert shard_cache() == ShardCache(str(tmp_path), 500_000_000)
    with dead_server():
        error = refused(RuntimeError, "", module.fetch_in_dataset, shard)
    text = f"UnknownError: {error} [Op:IteratorGetNext]"
    assert "expected an answer from the object store" in str(error.__cause__)
    assert module.find_failure(text) is error.__cause__ and module.find_failure("UnknownError") is None
    assert Path(module.fetch_in_dataset(shard)).read_bytes() == b"data"
    monkeypatch.setattr(ShardCache, "fetch", lambda *_: (_ for _ in ()).throw(DataError("gone")))
    for _ in range(100):
        refused(RuntimeError, "gone", module.fetch_in_dataset, shard)
    assert module.find_failure(text) is None, "only the latest are kept"


def test_a_cache_far_too_small_for_the_data_serves_epochs_in_the_same_order(bucket, tmp_path, monkeypatch):
    monkeypatch.setenv(module.FOLDER, str(tmp_path / "cache"))
    monkeypatch.setenv(module.GIGABYTES, "0")
    contents = [[bytes([n]) * 50, bytes([n]) * 60] for n in range(26)]
    here = [write_records(tmp_path / f"{n:02}.tfrecord", records) for n, records in enumerate(contents)]
    there = [_shard(bucket, f"epochs/{n:02}.tfrecord", Path(p).read_bytes()) for n, p in enumerate(here)]

    def two_epochs(paths):
        options = SequenceOptions(num_readers=24, read_block_length=1, shuffle_buffer_size=16, num_epochs=2)
        records = shuffled_epochs(shuffled_files(paths, options), options, seed=4)
        return [record.element for record in records.as_numpy_iterator()]

    read = two_epochs(there)
    assert len(read) == 104 and read == two_epochs(here)
    assert len(os.listdir(tmp_path / "cache")) == module._NEVER_REMOVED


def test_a_copy_that_waited_too_long_is_fetched_again(bucket, tmp_path, monkeypatch):
    monkeypatch.setenv(module.FOLDER, str(tmp_path / "cache"))
    here = [write_records(tmp_path / f"{n}.tfrecord", [b"%d" % n] * 3) for n in range(6)]
    there = [_shard(bucket, f"waited/{n}.tfrecord", Path(p).read_bytes()) for n, p in enumerate(here)]
    records = ordered_records(there, SequenceOptions(num_readers=1)).as_numpy_iterator()
    read = []
    for record in records:
        read.append(record)
        for copy in (tmp_path / "cache").glob("*.tfrecord"):
            copy.unlink()
    assert read == [b"%d" % n for n in range(6) for _ in range(3)]


def test_a_folder_that_somebody_else_can_write_to_is_not_trusted(bucket, tmp_path, monkeypatch):
    shard = _shard(bucket, "a.tfrecord", b"x").uri
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path / "theirs")
    folders = (str(tmp_path / name) for name in ("mine", "theirs", "link"))
    mine, *others = (ShardCache(folder, 1 << 20, private=True) for folder in folders)
    assert Path(mine.fetch(shard)).read_bytes() == b"x"
    for cache in others:
        refused(ConfigError, "expected a private folder", cache.fetch, shard)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    refused(ConfigError, "expected a private folder", mine.fetch, shard)


def test_a_local_path_is_taken_as_it_is(tmp_path):
    """Copies of what lies on a store are tested with every store, in test_object_store.py."""
    with local_copy(str(tmp_path)) as here:
        assert here == str(tmp_path)


def test_a_file_is_where_its_shard_or_its_path_says():
    shard = Shard(uri="s3://b/x#1/a.tfrecord.gz", size=12, crc32c="0012abcd", examples=3)
    assert uri_of(shard) == uri_of(shard.uri) == "s3://b/x#1/a.tfrecord.gz"
