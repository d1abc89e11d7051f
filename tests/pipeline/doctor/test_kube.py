from detection_core.errors import ConfigError
from pipeline.doctor.kube import ForbiddenError, open_kube
from pipeline.kubeflow.api_errors import ClusterError
from tests.support.cases import refused


def test_what_is_there_is_read_and_what_is_not_is_none(kube_server):
    kube = open_kube()
    assert kube.get("/version")["gitVersion"] == "v1.35.4"
    assert kube.get("/api/v1/namespaces/none") is None
    kube_server.denied.add("/api/v1/namespaces/kubeflow")
    refused(ForbiddenError, "your account may not", kube.get, "/api/v1/namespaces/kubeflow")
    refused(ConfigError, "the context other", open_kube, "other")


def test_a_token_that_is_not_accepted_or_a_server_that_fails_or_is_gone_is_one_message(kube_server, tmp_path):
    kube, config = open_kube(), tmp_path / "kubeconfig"
    config.write_text(config.read_text().replace("token: secret", "token: stale"))
    refused(ClusterError, r"not accepted \(401\)", open_kube().get, "/version")
    config.write_text(config.read_text().replace("token: stale", "token: secret"))
    kube_server.broken = 500
    refused(ClusterError, "answered 500", kube.get, "/version")
    kube_server.stop()
    kube = open_kube()  # not over the connection that is open
    caught = refused(ClusterError, "no answer", kube.get, "/version")
    assert caught.transient


def test_without_a_usable_kubeconfig_one_message_says_so(tmp_path, monkeypatch, clean_environment):
    path = tmp_path / "config"
    monkeypatch.setenv("KUBECONFIG", str(path))
    hostile = ("[" * 20_000, "clusters: !!int ''", "[a]", "a: &a [*a]", "clusters: [7]")
    for text in (None, "", "[]", "{", "kind: Config", *hostile):
        if text is not None:
            path.write_text(text)
        expected = "expected a kubeconfig with a current context.*name one with KUBECONFIG or --kube-context"
        caught = refused(ConfigError, expected, open_kube)
        assert "\n" not in str(caught) and ("expected a mapping" in str(caught)) == (
            text in ("", "[]", "[a]")
        )
