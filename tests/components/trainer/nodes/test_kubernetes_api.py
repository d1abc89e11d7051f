import json
from pathlib import Path

import pytest

from components.trainer.nodes import kubernetes_api
from components.trainer.nodes.kubernetes_api import KubernetesApi, KubernetesError
from tests.support.cases import cases, refused
from tests.support.certificate import self_signed
from tests.support.local_server import LocalServer, free_port

TRAIN_JOB = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"}


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """An API that gives `answers` (status, text), the last one again and again, to a pod with an account."""
    asked, answers = [], [(200, "{}")]

    def answer(request):
        asked.append(request)
        status, text = answers.pop(0) if len(answers) > 1 else answers[0]
        return status, "application/json", text

    server = LocalServer(answer)
    certificate = self_signed(tmp_path)
    server.start(certificate)
    server.asked, server.answers = asked, answers
    for name, text in (("ca.crt", Path(certificate).read_text()), ("namespace", "runs\n"), ("token", "t1\n")):
        (tmp_path / name).write_text(text)
    host, port = server.url.removeprefix("https://").split(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    monkeypatch.setattr(kubernetes_api, "ACCOUNT", tmp_path)
    monkeypatch.setattr(kubernetes_api, "_WAITS", (0, 0))
    server.account = tmp_path
    yield server
    server.stop()


def test_requests_have_the_account_s_newest_token_and_answers_are_objects(cluster):
    api = KubernetesApi()
    assert api.namespace == "runs"
    cluster.answers[:] = [(200, '{"items": []}'), (404, "{}")]
    assert api.get("/api/v1/pods", {"labelSelector": "a=b"}) == {"items": []}
    (cluster.account / "token").write_text("t2")
    assert api.get("/api/v1/pods/none") is None
    api.delete("/api/v1/pods/none")
    first, second, third = cluster.asked
    assert first.query == {"labelSelector": "a=b"}
    assert [r.headers["authorization"] for r in (first, second)] == ["Bearer t1", "Bearer t2"]
    assert (first.method, third.method) == ("GET", "DELETE")


def test_what_exists_is_not_made_and_a_kind_that_is_missing_is_named(cluster):
    api = KubernetesApi()
    cluster.answers[:] = [(201, "{}"), (409, '{"message": "exists"}'), (404, "{}")]
    assert api.create("/jobs", TRAIN_JOB) and json.loads(cluster.asked[0].raw) == TRAIN_JOB
    assert not api.create("/jobs", TRAIN_JOB)
    refused(
        KubernetesError, "the kind TrainJob of trainer.kubeflow.org/v1alpha1", api.create, "/jobs", TRAIN_JOB
    )


@cases(
    (403, '{"message": "trainjobs is forbidden"}', "403: trainjobs is forbidden; give the runs' service"),
    (422, '{"message": "spec is wrong"}', "422: spec is wrong; correct the settings of the step's pod"),
    (400, "<html>", "400: <html>; correct"),
    (503, "later", "503: later"),
    (200, "no JSON", "expected an answer of the Kubernetes API, found none .*check the cluster"),
)
def test_a_refusal_is_told_and_a_server_that_is_down_is_asked_again(cluster, *, status, text, message):
    cluster.asked.clear()
    cluster.answers[:] = [(status, text)]
    refused(KubernetesError, message, KubernetesApi().get, "/x")
    again = status in (503, 200)
    assert len(cluster.asked) == (3 if again else 1)
    if again:
        cluster.answers[:] = [(status, text), (429, "busy"), (200, "{}")]
        assert KubernetesApi().get("/x") == {}


def test_no_server_and_no_account_are_told(cluster, monkeypatch, tmp_path):
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(free_port()))
    refused(KubernetesError, "found none .*refused", KubernetesApi().get, "/x")
    assert list(KubernetesApi().lines("/log", {})) == []
    monkeypatch.setattr(kubernetes_api, "ACCOUNT", tmp_path / "none")
    refused(KubernetesError, "a pod with the token of a service account", KubernetesApi)


def test_lines_come_as_they_are_written(cluster):
    cluster.answers[:] = [(200, "2026 a\n2027 b \xe4\n")]
    assert list(KubernetesApi().lines("/log", {"follow": "true"})) == ["2026 a", "2027 b ä"]
    cluster.answers[:] = [(400, "the container is waiting")]
    assert list(KubernetesApi().lines("/log", {})) == []
