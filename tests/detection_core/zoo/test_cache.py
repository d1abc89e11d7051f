"""The store of downloads."""

import contextlib
import dataclasses
import hashlib
import json
import multiprocessing
import os
import shutil
import socket
import stat
import tarfile
import tempfile
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from detection_core.errors import ModelError, StorageError
from detection_core.zoo import cache as caches
from detection_core.zoo.cache import (
    PublishedFile,
    fetch_file,
    fetch_model,
    find_model_files,
    is_file,
    sizes,
)
from detection_core.zoo.networks import find_model
from tests.support.archives import FILES, NAME, archive, use_cache_below
from tests.support.cases import cases, refused
from tests.support.dataset_files import subfolder
from tests.support.local_server import serve
from tests.support.object_store import s3_server

MODEL = find_model(NAME)
ARCHIVE = archive()
WEIGHTS = FILES["checkpoint/ckpt-0.data-00000-of-00001"]
SINGLE = PublishedFile(address="https://x/w.h5", folder="backbones")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    return use_cache_below(tmp_path, monkeypatch)


@pytest.fixture
def mirror():
    with serve({f"/tf2/{MODEL.archive}": ARCHIVE}) as behaviour:
        behaviour.address += "/tf2"
        yield behaviour


def _fetch(mirror):
    return fetch_model(MODEL, mirror=mirror.address)


def _data(found):
    return Path(f"{found.checkpoint}.data-00000-of-00001").read_bytes()


def test_a_detector_is_fetched_once_and_an_archive_with_other_names_too(mirror, cache):
    found = _fetch(mirror)
    assert _data(found) == WEIGHTS and Path(found.config).read_text() == "model { }\n"
    assert _fetch(mirror) == found == find_model_files(MODEL) and len(mirror.requests) == 1
    record = json.loads((cache / f"{MODEL.archive}.json").read_text())
    assert record["size"] == len(ARCHIVE) and record["address"] == MODEL.address
    model = find_model("centernet_mobilenetv2fpn_512x512_coco17_od")
    other = {path.replace("ckpt-0", "ckpt-301"): content for path, content in FILES.items()}
    mirror.files[f"/tf2/{model.archive}"] = archive(other, name="centernet_mobilenetv2_fpn_od")
    found = fetch_model(model, mirror=mirror.address)
    assert found.checkpoint == str(cache / model.name / "checkpoint" / "ckpt-301") and _data(found) == WEIGHTS


def test_files_that_stay_are_not_read_for_each_run(mirror, monkeypatch):
    monkeypatch.setattr(caches, "_SETTLED_NS", -1)
    reads, whole = [], hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda *a: reads.append(a) or whole(*a))
    _fetch(mirror)
    found = _fetch(mirror)  # reads what was unpacked, once
    path = f"{found.checkpoint}.index"
    first = caches.content_state(path)
    assert reads
    reads.clear()
    assert _fetch(mirror) == found == find_model_files(MODEL) and caches.content_state(path) == first
    assert not reads
    Path(path).write_text("INDEX")
    assert caches.content_state(path) == hashlib.sha256(b"INDEX").hexdigest()
    assert find_model_files(MODEL) is None


def test_where_the_cache_is_and_nothing_is_there_before(cache, monkeypatch):
    assert find_model_files(MODEL) is None
    monkeypatch.delenv("DETFLOW_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x/cache")
    assert caches.cache_folder() == "/x/cache/detflow"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert caches.cache_folder() == "/home/somebody/.cache/detflow"


def test_another_archive_than_was_fetched_is_refused_until_it_is_trusted(mirror, cache):
    other = archive({**FILES, "pipeline.config": b"other"})
    _fetch(mirror)
    (cache / MODEL.archive).write_bytes(other)
    (cache / NAME / "pipeline.config").unlink()
    refused(ModelError, "somebody changed it; remove it to fetch it again", _fetch, mirror)
    (cache / MODEL.archive).unlink()
    mirror.files[f"/tf2/{MODEL.archive}"] = other
    refused(ModelError, r"SHA-256 .* recorded .* if you trust it, remove the record", _fetch, mirror)
    assert not (cache / MODEL.archive).exists()
    (cache / f"{MODEL.archive}.json").unlink()
    assert Path(_fetch(mirror).config).read_text() == "other"


def test_unpacked_files_that_somebody_changed_are_unpacked_again(mirror, cache, caplog):
    found = _fetch(mirror)
    Path(f"{found.checkpoint}.index").write_text("indexx")
    (cache / NAME / "more").write_text("x")
    assert _fetch(mirror) == found
    assert Path(f"{found.checkpoint}.index").read_text() == "index" and not (cache / NAME / "more").exists()
    assert "changed since it was unpacked" in caplog.text and len(mirror.requests) == 1


def test_without_a_network_one_message_says_which_file_to_put_where(cache, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/{MODEL.archive}"
    nowhere = PublishedFile(address=address, folder="zoo")
    monkeypatch.setattr(caches, "published_archive", lambda model: nowhere)
    message = str(refused(ModelError, "", fetch_model, MODEL))
    for part in (f"put {MODEL.archive}", f"into {cache}", "train.weights_mirror", "DETFLOW_WEIGHTS_MIRROR"):
        assert part in message
    assert "\n" not in message and len(message) < 700
    cache.mkdir(parents=True, exist_ok=True)
    (cache / MODEL.archive).write_bytes(b"<html>")
    refused(ModelError, "damaged", fetch_model, MODEL)  # and is not remembered
    (cache / MODEL.archive).write_bytes(ARCHIVE)
    found = fetch_model(MODEL)
    assert _data(found) == WEIGHTS and found.folder == str(cache / NAME)
    assert (cache / f"{MODEL.archive}.json").exists()


def test_a_missing_or_wrong_file_is_said_and_fetched_again(mirror, cache):
    whole = mirror.files.pop(f"/tf2/{MODEL.archive}")
    refused(ModelError, f"answers 404.*published at {MODEL.address}", _fetch, mirror)
    mirror.files[f"/tf2/{MODEL.archive}"] = whole[:1000]
    refused(ModelError, "damaged", _fetch, mirror)
    assert find_model_files(MODEL) is None and not (cache / NAME).exists()
    mirror.files[f"/tf2/{MODEL.archive}"] = whole
    assert _data(_fetch(mirror))


def _put(kind, path, victim):
    """Put something else than a file somewhere; it may lead to a file or folder of somebody's."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    make = {
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
        "device": lambda: path.symlink_to("/dev/zero"),
        "link": lambda: path.symlink_to(victim),
        "huge": lambda: (path.touch(), os.truncate(path, 1 << 40)),
        "socket": lambda: os.mknod(path, stat.S_IFSOCK | 0o600),
    }
    make[kind]()


@cases("pipe", "folder", "device", "link", "huge", "socket")
def test_what_is_no_file_is_refused_or_replaced_and_not_followed(tmp_path, mirror, cache, *, kind):
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_bytes(ARCHIVE)
    folder.mkdir()
    (folder / "precious").touch()
    for name in (MODEL.archive, f"{MODEL.archive}.json"):
        shutil.rmtree(cache, ignore_errors=True)
        _fetch(mirror)
        shutil.rmtree(cache / NAME)
        _put(kind, cache / name, file)
        mirror.requests.clear()
        message = "expected a file in the cache|expected at most|expected the record"
        refused(ModelError, message, _fetch, mirror)
        assert not mirror.requests, name
    for name in (f"{MODEL.archive}.fetched", f"{MODEL.archive}.fetched.part"):
        shutil.rmtree(cache)
        _put(kind, cache / name, file)
        assert _data(_fetch(mirror)) == WEIGHTS, name
    mirror.requests.clear()
    for name in ("", "unpacked.json", "pipeline.config", "more", "checkpoint"):
        _put(kind, cache / NAME / name, folder)
        assert _data(_fetch(mirror)) == WEIGHTS and not mirror.requests, name
        assert not (cache / NAME).is_symlink() and not (cache / NAME / "more").is_file(), name
    shutil.rmtree(cache)
    _put(kind, tmp_path / "mirror" / MODEL.archive, tmp_path / "none")
    message = "expected to fetch it, found: (expected|No such)"
    refused(ModelError, message, lambda: fetch_model(MODEL, mirror=str(tmp_path / "mirror")))
    assert file.read_bytes() == ARCHIVE and [path.name for path in folder.iterdir()] == ["precious"]


def test_the_mirror_may_be_a_folder_or_a_bucket_and_an_environment_variable(tmp_path, mirror, monkeypatch):
    fetch_model(MODEL, mirror=f"{mirror.address}/?sig=SENTINEL")
    assert mirror.requests == [(f"/tf2/{MODEL.archive}?sig=SENTINEL", "")]
    folder = tmp_path / "mirror"
    folder.mkdir()
    monkeypatch.setenv("DETFLOW_CACHE", str(tmp_path / "second"))
    monkeypatch.setenv("DETFLOW_WEIGHTS_MIRROR", str(folder))
    refused(ModelError, "found: No such file", fetch_model, MODEL)
    (folder / MODEL.archive).write_bytes(ARCHIVE)
    assert _data(fetch_model(MODEL))
    monkeypatch.setenv("DETFLOW_CACHE", str(tmp_path / "third"))
    (folder / "w").write_bytes(b"weights")
    with s3_server() as bucket:
        for name, place in ((MODEL.archive, f"models/{MODEL.archive}"), ("w", "w.h5")):
            caches.files.copy_file(str(folder / name), f"{bucket}/{place}")
        assert _data(fetch_model(MODEL, mirror=f"{bucket}/models/"))
        with pytest.raises(ModelError, match="expected at most 6 bytes, found 7"):
            fetch_file(dataclasses.replace(SINGLE, most_bytes=6), mirror=bucket)


def _denied(path):
    raise PermissionError(13, "Permission denied", path)


def test_a_cache_that_cannot_be_written_is_said_unless_all_is_there(mirror, cache, monkeypatch):
    with monkeypatch.context() as denied, pytest.raises(StorageError, match="DETFLOW_CACHE"):
        denied.setattr(caches.files, "make_dirs", _denied)
        fetch_model(MODEL)
    _fetch(mirror)
    monkeypatch.setattr(caches.files, "exclusive", _denied)
    monkeypatch.setattr(caches.files, "make_dirs", _denied)
    assert _data(_fetch(mirror))


def test_two_processes_at_once_fetch_once(mirror):
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    processes = [context.Process(target=lambda: results.put(_data(_fetch(mirror)))) for _ in range(4)]
    for process in processes:
        process.start()
    assert {results.get(timeout=60) for _ in processes} == {WEIGHTS}
    for process in processes:
        process.join()
    assert len(mirror.requests) == 1


def test_single_files_are_kept_and_compared_with_what_their_publisher_says(mirror):
    mirror.files["/tf2/w.h5"] = b"weights"
    with pytest.raises(ModelError, match="MD5"):
        fetch_file(dataclasses.replace(SINGLE, digest=f"md5:{'2c' * 16}"), mirror=mirror.address)
    path = fetch_file(SINGLE, mirror=mirror.address)
    assert Path(path).read_bytes() == b"weights" and fetch_file(SINGLE, mirror=mirror.address) == path
    os.chmod(path, stat.S_IRUSR | stat.S_IWUSR)
    with open(path, "ab") as file:
        file.write(b"x")
    refused(ModelError, "somebody changed it", fetch_file, SINGLE)


@cases("", "[]", "{}", '{"size": "x", "sha256": ""}', "\x00")
def test_a_record_that_is_none_is_said(mirror, cache, *, text):
    (cache / f"{MODEL.archive}.json").unlink(missing_ok=True)
    _fetch(mirror)
    (cache / f"{MODEL.archive}.json").write_text(text)
    (cache / NAME / "pipeline.config").unlink()
    refused(ModelError, "expected the record", _fetch, mirror)


VERSIONS = [archive({**FILES, "pipeline.config": b"%d" % version}) for version in range(3)]


class CacheSteps(RuleBasedStateMachine):
    """Whatever happens to mirror and cache, the cache returns the first recorded content, or nothing.

    Versions of the archive differ in their configuration. A model of what the cache may hold is kept beside.
    """

    def __init__(self):
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="cache-steps-"))
        self.mirror, self.cache = self.root / "mirror", self.root / "cache" / "zoo"
        self.mirror.mkdir()
        self.environment = mock.patch.dict(os.environ, DETFLOW_CACHE=str(self.root / "cache"))
        self.environment.start()
        self.recorded = None
        self.publish(0)

    def teardown(self):
        shutil.rmtree(self.root)
        self.environment.stop()

    @rule(version=st.none() | st.integers(0, 2))
    def publish(self, version):
        self.published = version
        (self.mirror / MODEL.archive).write_bytes(b"<html>" if version is None else VERSIONS[version])

    @rule(killed=st.sampled_from(["", "", "while it unpacks", "before it records"]))
    def fetch(self, killed):
        kept, whole = self._kept(), find_model_files(MODEL) is not None
        there = (self.cache / MODEL.archive).exists()
        expected = self.recorded if whole else kept if there else self.published
        place = {"while it unpacks": "unpack_detector", "before it records": "_remember"}.get(killed)
        killing = mock.patch.object(caches, place, side_effect=KeyboardInterrupt) if place else nullcontext()
        with killing:
            try:
                found = Path(fetch_model(MODEL, mirror=str(self.mirror)).config).read_text()
            except KeyboardInterrupt:
                return
            except ModelError:
                assert expected is None or self.recorded not in (None, expected)
                return
        assert found == str(expected if self.recorded is None else self.recorded)
        self.recorded = int(found)

    def _kept(self):
        """The version of the archive in the cache; None for one that is none."""
        with contextlib.suppress(OSError, tarfile.TarError), tarfile.open(self.cache / MODEL.archive) as tar:
            return int(tar.extractfile(f"{NAME}/pipeline.config").read())
        return None

    @rule()
    def remove_the_archive(self):
        (self.cache / MODEL.archive).unlink(missing_ok=True)

    @rule()
    def remove_what_was_unpacked(self):
        shutil.rmtree(self.cache / NAME, ignore_errors=True)

    @rule()
    def change_what_was_unpacked(self):
        path = self.cache / NAME / "pipeline.config"
        if path.exists():
            path.write_text("another")

    @rule(version=st.integers(0, 2))
    def put_an_archive_there(self, version):
        self.cache.mkdir(parents=True, exist_ok=True)
        (self.cache / MODEL.archive).write_bytes(VERSIONS[version])

    @rule()
    def trust_what_comes_next(self):
        (self.cache / f"{MODEL.archive}.json").unlink(missing_ok=True)
        self.remove_the_archive()
        self.remove_what_was_unpacked()
        self.recorded = None

    @invariant()
    def the_record_is_of_the_version_that_was_handed_out(self):
        if self.recorded is not None:
            record = json.loads((self.cache / f"{MODEL.archive}.json").read_text())
            assert record["sha256"] == hashlib.sha256(VERSIONS[self.recorded]).hexdigest()


TestCacheSteps = CacheSteps.TestCase
TestCacheSteps.settings = settings(max_examples=15, stateful_step_count=16, deadline=None)


def test_files_gaps_and_links_are_told_and_not_followed(tmp_path):
    (tmp_path / "a").write_text("x")
    assert is_file(str(tmp_path / "a")) and not is_file(str(tmp_path / "b"))
    assert not is_file(str(tmp_path / "a/below"))
    below = subfolder(tmp_path, 1)
    (below / "below").mkdir()
    (below / "below/a").write_text("xyz")
    (below / "below/loop").symlink_to("..")
    os.mkfifo(below / "pipe")
    assert sizes(str(below)) == {"below/a": 3, "below/loop": -1, "pipe": -1}
    (tmp_path / "link").symlink_to("/dev/zero")
    found = {"link": "a link", "part-1": "a folder", "part-1/pipe": "a named pipe", "/dev/zero": "a device"}
    for path, kind in found.items():
        refused(ModelError, f"expected a file in the cache, found {kind}", is_file, str(tmp_path / path))
