import re

import pytest

from detection_core.errors import ConfigError
from pipeline.kubeflow.api_errors import ClusterError
from pipeline.kubeflow.package import read_package
from pipeline.kubeflow.submission import check_names, default_run_name, ensure_experiment, pages, publish
from tests.pipeline.kubeflow.clients import connect, start
from tests.pipeline.kubeflow.conftest import write_package


def test_the_same_content_is_uploaded_once(server, connection, tmp_path, package_path):
    server.state.create_pipeline({"display_name": "Digits"})
    package = read_package(package_path)
    first, second = publish(connection, package), publish(connection, package)
    assert (first.reused, second.reused) == (False, True)
    assert first.version_id == second.version_id
    assert first.name == f"digits-{package.digest}"
    changed = publish(connection, read_package(write_package(tmp_path, steps=("trainer",))))
    assert changed.pipeline_id == first.pipeline_id and changed.version_id != first.version_id
    # A pipeline whose name differs in case is another one.
    assert [p["name"] for p in server.state.pipelines.values()] == ["Digits", "digits"]
    assert len(server.state.versions) == 2


def test_what_somebody_else_makes_at_the_same_moment_is_used(server, connection, package_path):
    state, named = server.state, {"display_name": "digits"}
    package = read_package(package_path)

    def upload():
        [pipeline_id] = state.pipelines
        with open(package_path, "rb") as f:
            state.upload_version(f"digits-{package.digest}", pipeline_id, f.read())

    server.misbehave("POST .*/pipelines", lambda: state.create_pipeline(named))
    server.misbehave("POST .*upload_version", upload)
    server.misbehave("POST .*/experiments", lambda: state.create_experiment(named))
    version = publish(connection, package)
    assert version.reused
    start(connection, package_path, version)
    kept = (state.pipelines, state.versions, state.experiments, state.runs)
    assert [len(each) for each in kept] == [1, 1, 1, 1]


def test_a_run_bears_version_experiment_and_parameters(server, connection, package_path):
    version = publish(connection, read_package(package_path))
    run_id = start(connection, package_path, version, service_account="robot")
    run = server.state.runs[run_id]
    assert run["pipeline_version_reference"]["pipeline_version_id"] == version.version_id
    assert run["runtime_config"]["parameters"] == {"data_path": "/data"}
    assert run["service_account"] == "robot"
    assert run["experiment_id"] == ensure_experiment(connection, "digits")
    assert len(server.state.experiments) == 1
    # The server checks parameters, too.
    with pytest.raises(ClusterError, match="not required by pipeline: nonsense"):
        start(connection, package_path, version, parameters={"data_path": "x", "nonsense": 1})


def test_every_namespace_of_a_server_with_users_has_its_own_pipelines_and_experiments(server, package_path):
    connection = connect(server, namespace="not-sent-without-users")
    assert connection.namespace is None and start(connection, package_path)
    server.state.__init__()
    server.state.multi_user = True
    package = read_package(package_path)
    for namespace in ("team-a", "team-b"):
        connection = connect(server, namespace=namespace)
        start(connection, package_path)
    for kept in (server.state.pipelines, server.state.runs):
        assert {each["namespace"] for each in kept.values()} == {"team-a", "team-b"}
    server.state.forbidden = ("team-b",)
    with pytest.raises(ClusterError, match="403: User is not authorized to work in namespace team-b"):
        publish(connection, package)


def test_a_pipeline_that_the_server_does_not_understand_is_explained(connection, tmp_path):
    package = read_package(write_package(tmp_path, fieldOfTomorrow=1))
    with pytest.raises(ClusterError, match=r"unknown template format.*newer than the server") as caught:
        publish(connection, package)
    assert "github.com" not in str(caught.value)


def test_listing_goes_through_all_pages(server, connection):
    for i in range(205):
        server.state.create_experiment({"display_name": f"e{i}"})
    listed = list(pages(connection, "listing", connection.client.list_experiments, "experiments"))
    assert [e.display_name for e in listed] == [f"e{i}" for i in range(205)]
    assert server.count("GET .*/experiments") == 3


def test_a_request_that_may_have_arrived_is_not_repeated(server, connection, package_path):
    version = publish(connection, read_package(package_path))
    server.misbehave("POST .*/runs", "close")
    with pytest.raises(ClusterError, match="closed the connection"):
        start(connection, package_path, version)
    assert server.count("POST .*/runs") == 1


def test_a_name_that_a_server_takes_is_as_long_as_is_allowed(connection, tmp_path):
    name = "a" * 110
    check_names(name, "e" * 128)
    version = publish(connection, read_package(write_package(tmp_path, name=name)))
    assert len(version.name) == 127 and ensure_experiment(connection, "e" * 128)
    with pytest.raises(ClusterError, match=r"400: PipelineVersion\.Name length cannot exceed 127"):
        publish(connection, read_package(write_package(tmp_path, name=name + "a")))
    with pytest.raises(ClusterError, match="the server failed"):
        ensure_experiment(connection, "e" * 129)
    for names, message in (
        ((name + "a", "e"), "pipeline's name: expected 110"),
        ((name, "é" * 65), "128 char"),
    ):
        with pytest.raises(ConfigError, match=message):
            check_names(*names)
    assert re.fullmatch(r"digits 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d", default_run_name("digits"))
