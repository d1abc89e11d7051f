"""A test server, and connections, packages and runs of it."""

import contextlib

import pytest
import yaml

from pipeline.kubeflow.connection_options import VARIABLES
from tests.pipeline.kubeflow.clients import connect, start
from tests.pipeline.kubeflow.kfp_server import KfpServer

_PARAMETERS = {
    "data_path": {"parameterType": "STRING"},
    "train_steps": {"parameterType": "NUMBER_INTEGER", "defaultValue": 100},
    "learning_rate": {"parameterType": "NUMBER_DOUBLE", "defaultValue": 0.1},
    "fast": {"parameterType": "BOOLEAN", "defaultValue": False},
    "tags": {"parameterType": "LIST", "isOptional": True},
    "extra": {"parameterType": "STRUCT", "isOptional": True},
}


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch, tmp_path):
    """No credentials, contexts or proxies of the machine that runs the tests."""
    from kfp import Client

    monkeypatch.setattr(Client, "_LOCAL_KFP_CONTEXT", str(tmp_path / "no-context.json"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "no-kubeconfig"))
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    for name in (*proxies, "KUBERNETES_SERVICE_HOST", *VARIABLES.values()):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture(autouse=True)
def settled_at_once(monkeypatch):
    monkeypatch.setattr("pipeline.kubeflow.runs._SETTLING_SECONDS", 0)


@contextlib.contextmanager
def running(certificate="", version="2.17.0"):
    """Run a server, with a certificate over TLS."""
    server = KfpServer(version)
    server.start(certificate)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def server(request):
    """A server of 2.17.0, or of the version that a test's parameter names."""
    with running(version=getattr(request, "param", "2.17.0")) as server:
        yield server


@pytest.fixture
def connection(server):
    return connect(server)


STEPS = ("example-gen", "trainer", "pusher")


def write_package(folder, *, name="digits", steps=STEPS, fills=True, **changes):
    """Write a small compiled pipeline, as the compiler would.

    Its first step takes `data_path`, and fills placeholders in it unless `fills` is false.
    """
    constant = "{{$.pipeline_job_schedule_time_utc}}" if fills else ""
    first = {"data_path": {"componentInputParameter": "data_path"}}
    first["scheduled_time"] = {"runtimeValue": {"constant": constant}}
    tasks = {
        step: {
            "taskInfo": {"name": step},
            "componentRef": {"name": f"comp-{step}"},
            "inputs": {"parameters": first if step == steps[0] else {}},
        }
        for step in steps
    }
    container = {"container": {"image": "img:1", "command": ["true"]}}
    spec = {
        "pipelineInfo": {"name": name}, "schemaVersion": "2.1.0", "sdkVersion": "kfp-2.17.0",
        "root": {"inputDefinitions": {"parameters": _PARAMETERS}, "dag": {"tasks": tasks}},
        "components": {f"comp-{step}": {"executorLabel": f"exec-{step}"} for step in steps},
        "deploymentSpec": {"executors": {f"exec-{step}": container for step in steps}}, **changes,
    }  # fmt: skip
    path = folder / "pipeline.yaml"
    path.write_text("# PIPELINE DEFINITION\n" + yaml.safe_dump(spec), encoding="utf-8")
    return str(path)


@pytest.fixture
def package_path(tmp_path):
    return write_package(tmp_path)


@pytest.fixture
def run_id(connection, package_path):
    return start(connection, package_path)
