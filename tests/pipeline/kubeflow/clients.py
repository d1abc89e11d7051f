"""Connections to the test server, and runs that are started on it."""

from typing import Any

from pipeline.kubeflow.connection import Connection
from pipeline.kubeflow.package import read_package
from pipeline.kubeflow.submission import ensure_experiment, publish, start_run
from pipeline.settings.kubeflow_settings import ConnectionOptions
from tests.pipeline.kubeflow.kfp_server import KfpServer


def options(server: KfpServer, **changes: Any) -> ConnectionOptions:
    """Return options that lead to a server."""
    return ConnectionOptions(**{"host": server.url, "timeout": 5, **changes})


def connect(server: KfpServer, **changes: Any) -> Connection:
    """Connect to a server."""
    return Connection.open(options(server, **changes))


def start(connection: Connection, package_path: str, version: Any = None, **changes: Any) -> str:
    """Start a run of a package, or of a version of it, and return its id."""
    fields = {
        "name": "run 1",
        "experiment_id": ensure_experiment(connection, "digits"),
        "parameters": {"data_path": "/data"},
        "service_account": "",
    }
    version = version or publish(connection, read_package(package_path))
    return start_run(connection, version, **{**fields, **changes})
