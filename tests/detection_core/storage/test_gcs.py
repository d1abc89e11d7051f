"""What is Google Cloud Storage's own; the rest is in test_object_store.py."""

import http.server
import json
import threading

import pytest

from detection_core.errors import DataError
from detection_core.storage import files
from detection_core.storage.gcs import stored_object
from tests.support.object_store import gcs_server


@pytest.fixture
def refusing(monkeypatch):
    """A server that refuses as the service does: "HTTP status and error codes for JSON", Cloud Storage."""
    answers = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            code, message = answers[0] if len(answers) == 1 else answers.pop(0)
            body = json.dumps({"error": {"code": code, "message": message}}).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{server.server_port}")
    yield answers
    server.shutdown()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            401,
            "Anonymous caller does not have storage.objects.get access to the Google Cloud Storage object.",
        ),
        (403, "me@example.com does not have storage.objects.get access."),
    ],
)
def test_a_refusal_names_the_path_the_reason_and_where_credentials_come_from(refusing, code, message):
    refusing.append((code, message))
    with pytest.raises(DataError, match=rf"gs://bucket/a: .*found {code} \(.*storage.objects.get") as caught:
        files.read_bytes("gs://bucket/a")
    assert "GOOGLE_APPLICATION_CREDENTIALS" in str(caught.value)


def test_what_fails_for_a_moment_is_tried_again(refusing):
    refusing += [(503, "Service Unavailable"), (403, "no")]
    with pytest.raises(DataError, match="found 403"):
        files.read_bytes("gs://bucket/a")
    assert len(refusing) == 1


def test_a_composed_object_has_no_md5_and_counts_by_checksum_and_generation():
    """The resource of an object: `md5Hash` "is not provided for composite objects"."""
    entry = {"name": "a", "size": "3", "crc32c": "KpSy6Q==", "generation": "7"}
    assert stored_object(entry).etag == "KpSy6Q== 7" and stored_object(entry).version == "7"
    assert stored_object({**entry, "md5Hash": "+XxdKZQb=="}).etag == "+XxdKZQb=="
    with gcs_server() as bucket:
        assert not files.opened_by_tensorflow(f"{bucket}/a")
