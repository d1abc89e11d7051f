"""MLflow's own server, for `make test-trackers`."""

import os
import subprocess
import sys
import time
import urllib.request

import pytest

from tests.support.local_server import free_port

needs_mlflow = [
    pytest.mark.trackers,
    pytest.mark.skipif(
        not os.environ.get("DETFLOW_TRACKERS"), reason="DETFLOW_TRACKERS is not set: no MLflow here"
    ),
]


def mlflow_server(tmp_path_factory):
    """Address of MLflow's server, started for the tests."""
    folder = tmp_path_factory.mktemp("mlflow")
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    store = f"sqlite:///{folder}/store.db"
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--backend-store-uri", store, "--artifacts-destination", str(folder / "artifacts")]
    command += ["--workers", "1", "--enable-workspaces"]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, start_new_session=True)
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{address}/health", timeout=1).read()
                break
            except OSError:
                assert process.poll() is None, (folder / "log").read_text()
                time.sleep(0.5)
        yield address
    finally:
        os.killpg(process.pid, 15)
        process.wait(30)
