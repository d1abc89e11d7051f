"""MLflow's model registry, with its own server; `make test-trackers`."""

import sys

import pytest

from detection_core.errors import ConfigError
from detection_core.optional.model_registry import register_version
from tests.support.cases import refused
from tests.support.local_server import free_port
from tests.support.mlflow_server import mlflow_server, needs_mlflow

server = pytest.fixture(scope="module")(mlflow_server)


class TestOnAServer:
    pytestmark = needs_mlflow

    def test_a_version_is_registered_once_for_each_destination(self, server):
        import mlflow

        metrics = {"mAP@.50IOU": 0.5, "none": None}
        arguments = (server, "digits v-1.0", "s3://bucket/a/saved_model/17", 17, metrics)
        assert [register_version(*arguments) for _ in range(2)] == ["1", "1"]
        assert register_version(server, "digits v-1.0", "s3://bucket/b/saved_model/17", 17, {}) == "2"
        assert register_version(server, "other", "s3://bucket/a/saved_model/17", 17, {}) == "1"
        found = mlflow.MlflowClient(server).get_model_version("digits v-1.0", "1")
        assert found.source == "s3://bucket/a/saved_model/17"
        assert found.tags == {"detflow.version": "17", "mAP_.50IOU": "0.5"}

    def test_without_an_address_mlflows_variables_name_the_registry(self, server, monkeypatch):
        import mlflow

        monkeypatch.setenv("MLFLOW_REGISTRY_URI", server)
        assert register_version("", "by variable", "s3://bucket/saved_model/1", 1, {}) == "1"
        assert mlflow.MlflowClient(server).get_model_version("by variable", "1").status == "READY"

    def test_a_registry_that_refuses_or_does_not_answer_is_one_error(self, server, monkeypatch):
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        down = f"http://name:hidden-word@127.0.0.1:{free_port()}"
        for registry, source, reason in (
            (server, "/pushed/saved_model/3", "Invalid model version source"),
            (down, "s3://bucket/saved_model/3", "cannot be reached"),
        ):
            with pytest.raises(ConfigError, match=reason) as error:
                register_version(registry, "refused", source, 3, {})
            assert error.value.where == "push.register"
            assert "version 3 is published but not registered" in str(error.value)
            assert "hidden-word" not in str(error.value)


def test_a_missing_package_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    text = "expected the package mlflow for the registration of version 3, which is published, found none"
    refused(ConfigError, text, register_version, "", "digits", "s3://bucket/3", 3, {})
