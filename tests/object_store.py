"""An S3 server on a socket of its own, for tests.

S3 decides on a conditional write and makes it in one step ("How to prevent object overwrites with conditional
writes", Amazon S3 User Guide). moto looks and writes in two, so its server answers one request at a time
here.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any
from unittest import mock

import boto3
from moto.server import ThreadedMotoServer

BUCKET = "bucket"


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
def dead_server() -> Iterator[str]:
    """Point the environment at a port where nobody listens."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        with _environment(f"http://127.0.0.1:{s.getsockname()[1]}"):
            yield f"s3://{BUCKET}"


@contextlib.contextmanager
def _environment(endpoint: str) -> Iterator[None]:
    names = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
    values = {**names, "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": endpoint}
    with mock.patch.dict(os.environ, values):
        yield
