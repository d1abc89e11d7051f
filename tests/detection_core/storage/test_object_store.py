"""Every object store behaves alike: the same checks against a server of each; then what is a store's own."""

import json
import multiprocessing
import os
import types

import pytest

from detection_core.errors import ConfigError, DataError
from detection_core.storage import azure, files, object_store, store_lock
from detection_core.storage.files import local_copy, store_of
from detection_core.storage.gcs import stored_object
from detection_core.storage.shard_cache import ShardCache
from tests.support.cases import refused
from tests.support.local_server import serve_raw
from tests.support.object_store import SERVERS, azure_server, gcs_server
from tests.support.threads import at_once


@pytest.fixture(scope="module", params=SERVERS)
def server(request):
    with SERVERS[request.param]() as bucket:
        yield bucket


@pytest.fixture
def root(server, request):
    return f"{server}/{request.node.originalname}"


def test_names_make_folders_and_contents_come_back(root):
    for name in ("a/1.json", "a/[2] *.json", "a/b/3.json", "ab/4", "a.json", "c"):
        files.write_text(f"{root}/{name}", name)
    assert files.list_dir(root) == ["a", "a.json", "ab", "c"]
    assert files.list_dir(f"{root}/a/") == ["1.json", "[2] *.json", "b"]
    assert files.is_dir(f"{root}/a") and not files.is_dir(f"{root}/a.json") and not files.is_dir(f"{root}/x")
    assert files.exists(f"{root}/a") and files.exists(f"{root}/c") and not files.exists(f"{root}/a/1")
    assert files.glob(f"{root}/*/?.json") == [f"{root}/a/1.json"] and files.glob(f"{root}/x*") == []
    assert files.sizes(f"{root}/a") == {"1.json": 8, "[2] *.json": 12, "b/3.json": 10}
    assert files.read_text(f"{root}/a/[2] *.json") == "a/[2] *.json"
    refused(FileNotFoundError, "", files.list_dir, f"{root}/x")
    refused(FileNotFoundError, "", files.read_bytes, f"{root}/a/4.json")
    files.remove_tree(f"{root}/a")
    files.remove_tree(f"{root}/a")
    assert files.list_dir(root) == ["a.json", "ab", "c"]
    files.write_text(f"{root}/text", "grün\n")
    files.write_bytes(f"{root}/bytes", b"\0\1")
    assert files.read_text(f"{root}/text") == "grün\n"
    assert files.read_bytes(f"{root}/bytes") == b"\0\1" and files.sizes(f"{root}/x") == {}
    assert files.glob(f"{root}/text") == [f"{root}/text"]


def test_a_listing_goes_over_its_pages(root):
    store = store_of(root)
    for number in range(12):
        files.write_bytes(f"{root}/{number:02}", b"x")
    bucket, key = store._split(root)
    entries = store._entries(f"{key}/", bucket, deep=True, limit=5)
    assert [entry.key for entry in entries] == [f"{key}/{number:02}" for number in range(12)]


def test_an_etag_changes_with_the_content(root):
    files.write_text(f"{root}/a", "1")
    files.write_text(f"{root}/b/c", "2")
    before, state = list(files.states(root)), files.content_state(f"{root}/b/c")
    key = store_of(root).key_of(root)
    assert [line.split()[:2] for line in before] == [[f"{key}/a", "1"], [f"{key}/b/c", "1"]]
    assert list(files.states(f"{root}/a")) == before[:1] and list(files.states(root)) == before
    files.write_text(f"{root}/b/c", "3")
    assert list(files.states(root)) != before and files.content_state(f"{root}/b/c") != state


def test_a_folder_appears_whole_and_a_writer_that_fails_leaves_nothing(root):
    with files.atomic_dir(f"{root}/made") as folder:
        files.write_text(f"{folder}/deep/x", "1")
        files.write_text(f"{folder}/saved_model.pb", "2")
        assert not files.exists(f"{root}/made")
    assert files.sizes(f"{root}/made") == {"deep/x": 1, "saved_model.pb": 1}
    with pytest.raises(ZeroDivisionError), files.atomic_dir(f"{root}/made") as folder:
        files.write_text(f"{folder}/x", "half")
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), files.atomic_file(f"{root}/a") as f:
        f.write(b"half")
        raise ZeroDivisionError
    assert files.list_dir(root) == ["made"] and files.read_text(f"{root}/made/deep/x") == "1"


def test_a_large_file_travels_in_parts_and_is_read_as_it_was_at_one_moment(root, tmp_path, monkeypatch):
    content = os.urandom(5_300_000)
    (tmp_path / "here").write_bytes(content)
    files.copy_file(str(tmp_path / "here"), f"{root}/there")
    files.copy_file(f"{root}/there", f"{root}/copy")
    monkeypatch.setattr(object_store, "PART_BYTES", 1 << 20)
    files.download(f"{root}/copy", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == content
    with files.open_regular(f"{root}/copy") as f:
        f.seek(-3, os.SEEK_END)
        assert f.read() == content[-3:]
    store = store_of(root)
    read = store.file_system.cat_file

    def overtaken(name, start=None, end=None, **options):
        if start == 3 << 20:
            files.write_bytes(f"{root}/copy", bytes(len(content)))
        return read(name, start=start, end=end, **options)

    monkeypatch.setattr(store.file_system, "cat_file", overtaken)
    refused(DataError, "was changed; run again", files.download, f"{root}/copy", str(tmp_path / "torn"))


def test_of_many_that_create_replace_or_lock_one_succeeds_and_a_stale_lock_is_taken_over(root, monkeypatch):
    store = store_of(root)
    won = at_once(range(8), lambda n: store.write_if(f"{root}/once", b"%d" % n))
    assert len([version for version in won if version]) == 1
    version = store.head(f"{root}/once").version
    won = at_once(range(8), lambda n: store.write_if(f"{root}/once", b"again %d" % n, version))
    assert len([version for version in won if version]) == 1
    assert store.write_if(f"{root}/never", b"x", version) is None and not files.exists(f"{root}/never")
    monkeypatch.setattr(store_lock, "_WAIT_SECONDS", 0.01)
    held, most = [], []

    def work(_):
        with files.exclusive(f"{root}/.lock") as confirm:
            held.append(1)
            most.append(len(held))
            confirm()
            held.pop()

    at_once(range(4), work)
    assert most == [1] * 4
    files.write_bytes(f"{root}/.lock", b"the holder was killed")
    assert store_of(root).head(f"{root}/.lock").age < 60
    monkeypatch.setattr(store_lock, "_STALE_SECONDS", -60)
    work(0)


def test_a_forked_process_and_threads_use_the_store(root):
    files.write_text(f"{root}/a", "before")
    assert at_once(range(8), lambda n: files.read_text(f"{root}/a")) == ["before"] * 8
    context = multiprocessing.get_context("fork")
    worker = context.Process(target=lambda: files.write_text(f"{root}/b", files.read_text(f"{root}/a")))
    worker.start()
    worker.join(60)
    assert worker.exitcode == 0
    assert files.read_text(f"{root}/b") == "before"
    files.write_text(f"{root}/a", "after")  # the parent's own connection still works


def test_shards_and_models_are_read_from_local_copies(root, tmp_path):
    files.write_text(f"{root}/model/variables/a", "one")
    with local_copy(f"{root}/model/") as here:
        assert os.path.basename(here) == "model" and not files.is_remote(here)
        assert files.read_text(f"{here}/variables/a") == "one"
    assert not os.path.exists(here)
    files.write_text(f"{root}/b.tflite", "two")
    with local_copy(f"{root}/b.tflite") as here:
        assert here.endswith("/b.tflite") and files.read_text(here) == "two"
    with pytest.raises(FileNotFoundError), local_copy(f"{root}/nothing"):
        pass
    cache = ShardCache(str(tmp_path), 1000)
    assert files.read_text(cache.fetch(f"{root}/model/variables/a")) == "one"


def test_a_bucket_that_is_not_there_is_named(server):
    elsewhere = f"{server.partition('://')[0]}://nowhere"
    for operation in (
        files.read_bytes,
        files.list_dir,
        files.is_dir,
        lambda p: list(files.states(p)),
        files.glob,
    ):
        path = f"{elsewhere}/*" if operation is files.glob else f"{elsewhere}/a"
        refused(DataError, r"expected access to the object store, found .*bucket|ontainer", operation, path)
    refused((DataError, FileNotFoundError), "", files.write_text, f"{elsewhere}/a", "x")


@pytest.fixture
def refusing(monkeypatch):
    """A server that refuses as the service does: "HTTP status and error codes for JSON", Cloud Storage."""
    answers = []

    def answer(connection, _):
        code, message = answers[0] if len(answers) == 1 else answers.pop(0)
        body = json.dumps({"error": {"code": code, "message": message}})
        head = f"HTTP/1.1 {code} None\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        connection.sendall(f"{head}{body}".encode())

    with serve_raw(answer) as address:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
        yield answers


def test_a_refusal_is_told_with_its_reason_and_what_fails_for_a_moment_tried_again(refusing):
    for code, message in (
        (401, "Anonymous caller does not have storage.objects.get access to the object."),
        (403, "me@example.com does not have storage.objects.get access."),
    ):
        refusing[:] = [(code, message)]
        found = rf"gs://bucket/a: .*found {code} \(.*storage.objects.get"
        error = refused(DataError, found, files.read_bytes, "gs://bucket/a")
        assert "GOOGLE_APPLICATION_CREDENTIALS" in str(error)
    refusing[:] = [(503, "Service Unavailable"), (403, "no")]
    refused(DataError, "found 403", files.read_bytes, "gs://bucket/a")
    assert len(refusing) == 1


def test_a_composed_object_has_no_md5_and_counts_by_checksum_and_generation():
    """The resource of an object: `md5Hash` "is not provided for composite objects"."""
    entry = {"name": "a", "size": "3", "crc32c": "KpSy6Q==", "generation": "7"}
    assert stored_object(entry).etag == "KpSy6Q== 7" and stored_object(entry).version == "7"
    assert stored_object({**entry, "md5Hash": "+XxdKZQb=="}).etag == "+XxdKZQb=="
    with gcs_server() as bucket:
        assert not files.opened_by_tensorflow(f"{bucket}/a")


def test_accounts_and_folders_are_azure_s_own(monkeypatch):
    for name in azure._VARIABLES:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="AZURE_STORAGE_ACCOUNT_NAME: expected a storage account") as caught:
        files.exists("abfs://container/a")
    assert "AZURE_STORAGE_CONNECTION_STRING" in str(caught.value)
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", "AccountKey=c2VjcmV0LVNFTlRJTkVM;")
    error = refused(ConfigError, "found none that can be used", files.exists, "abfs://container/a")
    assert "c2VjcmV0" not in str(error)
    # They are listed as empty blobs with `hdi_isfolder`: "List Blobs", Azure Blob Storage REST API.
    for metadata, expected in (
        ({"hdi_isfolder": "true"}, True),
        ({"Hdi_isfolder": "true"}, True),
        (None, False),
    ):
        assert azure.is_folder(types.SimpleNamespace(metadata=metadata)) == expected, metadata
    store = store_of("abfss://")
    assert store._split("abfss://box@account.dfs.core.windows.net/a/b/") == ("box", "a/b")
    refused(DataError, "without a question mark", store.exists, "abfs://box/a?b")


def test_a_key_that_does_not_fit_is_refused(monkeypatch):
    with azure_server() as bucket:
        text = os.environ["AZURE_STORAGE_CONNECTION_STRING"]
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text.replace("Eby8", "Eby9"))
        error = refused(DataError, r"found Auth[a-zA-Z]+ \(", files.read_bytes, f"{bucket}/a")
        assert error.where == f"{bucket}/a"
