import pytest

from tests.pipeline.doctor.fake_kube import FakeKube
from tests.pipeline.kubeflow.conftest import clean_environment, server  # noqa: F401


@pytest.fixture
def kube_server(tmp_path, monkeypatch, clean_environment):  # noqa: F811
    kube = FakeKube()
    monkeypatch.setenv("KUBECONFIG", kube.kubeconfig(tmp_path))
    yield kube
    kube.stop()
