"""The Kubernetes API as the doctor reads it."""

import pytest
import yaml

from detection_core.errors import ConfigError
from pipeline.doctor.kube import ForbiddenError, open_kube
from pipeline.kubeflow.api_errors import ClusterError

HOSTILE = ("[" * 20_000, "clusters: !!int ''", "[a]", "a: &a [*a]", "clusters: [7]")


def test_what_is_there_is_read_and_what_is_not_is_none(kube_server):
    kube = open_kube()
    assert kube.get("/version")["gitVersion"] == "v1.35.4"
    assert kube.get("/api/v1/namespaces/none") is None


def test_what_the_account_may_not_read_is_told_apart(kube_server):
    kube_server.denied.add("/api/v1/namespaces/kubeflow")
    with pytest.raises(ForbiddenError, match="your account may not"):
        open_kube().get("/api/v1/namespaces/kubeflow")


def test_reviews_ask_for_the_account_itself_and_for_others(kube_server):
    account = "system:serviceaccount:kubeflow:runner"
    granted = (("", "get", "services/proxy"), (account, "patch", "pods"))
    kube_server.may = lambda *asked: asked in granted
    kube = open_kube()
    assert kube.may(namespace="kubeflow", verb="get", resource="services", subresource="proxy")
    assert not kube.may(namespace="kubeflow", verb="get", resource="pods")
    assert kube.account_may(account, [], namespace="kubeflow", verb="patch", resource="pods")


def test_a_token_that_is_not_accepted_is_one_message(kube_server, monkeypatch, tmp_path):
    tree = yaml.safe_load((tmp_path / "kubeconfig").read_text())
    tree["users"][0]["user"]["token"] = "stale"
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(tree))
    with pytest.raises(ClusterError, match=r"not accepted \(401\)"):
        open_kube().get("/version")


def test_a_server_that_fails_or_is_gone_is_one_message(kube_server):
    kube = open_kube()
    kube_server.broken = 500
    with pytest.raises(ClusterError, match="answered 500"):
        kube.get("/version")
    kube_server.stop()
    kube = open_kube()  # not over the connection that is open
    with pytest.raises(ClusterError, match="no answer") as caught:
        kube.get("/version")
    assert caught.value.transient


def test_without_a_usable_kubeconfig_one_message_says_so(tmp_path, monkeypatch, clean_environment):
    path = tmp_path / "config"
    monkeypatch.setenv("KUBECONFIG", str(path))
    for text in (None, "", "[]", "{", "kind: Config", *HOSTILE):
        if text is not None:
            path.write_text(text)
        expected = "expected a kubeconfig with a current context.*name one with KUBECONFIG or --kube-context"
        with pytest.raises(ConfigError, match=expected) as caught:
            open_kube()
        assert "\n" not in str(caught.value)


def test_a_context_that_is_not_there_is_named(kube_server):
    with pytest.raises(ConfigError, match="the context other"):
        open_kube("other")
