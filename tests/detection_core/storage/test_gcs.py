"""What is Google Cloud Storage's own; the rest is in test_object_store.py."""

import json

import pytest

from detection_core.errors import DataError
from detection_core.storage import files
from detection_core.storage.gcs import stored_object
from tests.support.cases import refused
from tests.support.object_store import gcs_server
from tests.support.raw_server import serve_raw


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
