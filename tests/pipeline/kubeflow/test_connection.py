"""Connections to the server, and who asks."""

import sys

import pytest

from detection_core.errors import ConfigError
from detection_core.redaction import redact
from pipeline.kubeflow import connection as connection_module
from pipeline.kubeflow import connection_options, runs
from pipeline.kubeflow.api_errors import ClusterError
from pipeline.kubeflow.connection import Connection, forget_namespace
from pipeline.kubeflow.connection_options import TokenFile, read_credentials, resolve_options
from pipeline.kubeflow.schedules import list_schedules
from pipeline.settings.kubeflow_settings import ConnectionOptions
from tests.pipeline.kubeflow.clients import connect, options, start
from tests.pipeline.kubeflow.conftest import running
from tests.support.cases import refused
from tests.support.certificate import self_signed
from tests.support.kubeconfig import write_kubeconfig

_PROXY = "/api/v1/namespaces/kubeflow/services/ml-pipeline:http/proxy"


def _count(connection):
    """Ask for something that wants credentials."""
    return connection.call("listing", connection.client.list_experiments).total_size


def test_a_single_user_server_needs_no_credentials(server, connection):
    assert (connection.host, connection.namespace, connection.server_version) == (server.url, None, "2.17.0")
    assert connection.link("runs/details/1") == f"{server.url}/#/runs/details/1"
    assert server.requests == ["GET /apis/v2beta1/healthz"]


def test_credentials_come_from_a_file_each_time_or_the_environment(server, tmp_path, monkeypatch):
    path, connection = tmp_path / "token", None
    for server.token in ("first", "second"):
        path.write_text(f"{server.token}\n")
        connection = connection or connect(server, token_file=str(path))
        assert _count(connection) == 0
    monkeypatch.setenv("MY_TOKEN", "secret")
    server.token = "secret"
    assert _count(connect(server, token_env="MY_TOKEN")) == 0
    monkeypatch.setenv("MY_COOKIE", "authservice_session=1")
    server.token, server.cookie = "", "authservice_session=1"
    assert _count(connect(server, cookie_env="MY_COOKIE")) == 0
    # Refused credentials are named without their content.
    server.token, message = "another", r"credentials from \$MY_TOKEN were not accepted \(401\)"
    caught = refused(ClusterError, message, connect, server, token_env="MY_TOKEN")
    assert "secret" not in str(caught)


def test_the_projected_token_of_a_pod_is_used_by_itself(server, tmp_path, monkeypatch):
    path = tmp_path / "token"
    path.write_text("projected")
    monkeypatch.setattr(connection_options, "IN_CLUSTER_TOKEN", str(path))
    monkeypatch.setattr(connection_module, "IN_CLUSTER_HOST", server.url)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    server.token = "projected"
    assert Connection.open(ConnectionOptions(timeout=5)).host == server.url


def _kubeconfig(server, folder, monkeypatch, user):
    path = write_kubeconfig(folder / "kubeconfig", server.url, user, "one")
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", path)
    server.kube_proxy = _PROXY


def test_a_kube_context_leads_through_its_proxy_every_time(server, package_path, tmp_path, monkeypatch):
    """kubernetes' loader resets address and hook with every request."""
    _kubeconfig(server, tmp_path, monkeypatch, {"token": "secret"})
    server.token = "secret"
    for context in ("one", ""):
        connection = Connection.open(ConnectionOptions(kube_context=context, timeout=5))
        run_id = start(connection, package_path)
        for _ in range(2):
            assert runs.read_run(connection, run_id).run_id == run_id
            assert run_id in [s.run_id for s in runs.list_runs(connection, 5)]
            assert list_schedules(connection) == []
    assert all(request.split()[1].startswith(_PROXY) for request in server.requests)
    server.misbehave("GET .*", 403)
    with pytest.raises(ClusterError, match="the holder of the credentials from the kubeconfig may not"):
        Connection.open(ConnectionOptions(kube_context="one", timeout=5))
    with pytest.raises(ConfigError, match="no context other in the kubeconfig; give --host"):
        Connection.open(ConnectionOptions(kube_context="other", timeout=5))


_PLUGIN = """#!/bin/sh
n=$(($(cat COUNT) + 1)); echo $n > COUNT
echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
"status": {"token": "token-'$n'", "expirationTimestamp": "2020-01-01T00:00:00Z"}}'
"""


def test_a_token_of_a_kubeconfig_that_expires_is_renewed(server, package_path, tmp_path, monkeypatch):
    count, plugin = tmp_path / "count", tmp_path / "plugin"
    count.write_text("0")
    plugin.write_text(_PLUGIN.replace("COUNT", str(count)))
    plugin.chmod(0o755)
    command = {"command": str(plugin), "interactiveMode": "Never"}
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", **command}}
    _kubeconfig(server, tmp_path, monkeypatch, user)
    server.token = lambda: f"token-{count.read_text().strip()}"
    connection = Connection.open(ConnectionOptions(kube_context="one", timeout=5))
    assert runs.wait_for(connection, start(connection, package_path), poll_seconds=0, limit_seconds=0).good
    assert int(count.read_text()) > 10, "each request had its own token"


def test_a_certificate_is_checked_against_the_given_authority(server, tmp_path):
    certificate = self_signed(tmp_path)
    with running(certificate) as secure:
        assert connect(secure, ca_file=certificate).server_version
        assert connect(secure, verify_tls=False).server_version
        refused(ClusterError, "certificate could not be checked; give its CA file", connect, secure)
    with pytest.raises(ClusterError, match=r"certificate could not be checked.*http://"):
        connect(server, host=server.url.replace("http:", "https:"))


def test_a_server_with_users_wants_a_namespace(server, tmp_path, monkeypatch):
    server.state.multi_user = True
    refused(ClusterError, "give --namespace", connect, server)
    assert connect(server, namespace="team-a").namespace == "team-a"
    path = tmp_path / "namespace"
    path.write_text("of-the-pod")
    monkeypatch.setattr(connection_module, "POD_NAMESPACE", str(path))
    assert connect(server).namespace == "of-the-pod"
    # Without kfp one message says what to install.
    monkeypatch.setitem(sys.modules, "kfp", None)
    refused(ConfigError, r"packages of detflow\[cluster\], found no kfp.*pip install", connect, server)


def test_an_old_server_is_refused_and_an_unnamed_one_is_not_behind_its_user_interface_too(server):
    for server.behind_ui in (False, True):
        server.version = "2.17.0"
        assert connect(server).server_version == "2.17.0"
        server.version = "2.4.1"
        refused(ClusterError, r"a server 2\.16 or newer, found 2\.4\.1; upgrade it", connect, server)
        server.version = "unknown"
        connect(server)
    server.api_ready = False
    refused(ClusterError, "not the pipelines API behind it; try again", connect, server)


def test_what_goes_wrong_is_one_line_with_a_remedy(server, subtests):
    for fault, message in (
        ("html", "expected the pipelines API, found a page .*login.*--cookie-env"),
        (404, r"refused \(404: it is broken\); check the id, the namespace and the host"),
        (500, r"the server failed \(500: it is broken\); try again"),
        ("close", "the server closed the connection; try again"),
        (401, r"wants credentials \(401\) and none were given; name a file with --token-file"),
        (403, r"anonymous access may not do this \(403: it is broken\); check --namespace"),
    ):
        server.forget_faults()
        server.misbehave("GET .*healthz", fault, times=5)
        with subtests.test(fault=fault):
            caught = refused(ClusterError, message, connect, server)
            assert "\n" not in str(caught) and str(caught).startswith(server.url)


def test_a_host_that_is_not_there_or_does_not_answer_says_so(server):
    server.misbehave("GET .*healthz", 30.0, times=9)
    for host, message in (
        ("http://127.0.0.1:1", r"nothing listens there.*kubectl port-forward"),
        ("http://no-such-host.invalid", "no such host name; check --host"),
        (server.url, "no answer within the time limit; check --host, or raise"),
    ):
        refused(ClusterError, message, Connection.open, ConnectionOptions(host=host, timeout=1))


def test_options_that_cannot_be_used_and_addresses_with_a_password_are_refused_at_once():
    for given, message in (
        ({}, "expected the address of a Kubeflow Pipelines server, found none; give --host"),
        ({"host": "localhost:8080"}, "starts with http:// or https://, found 'localhost:8080'"),
        ({"host": "http://h", "ca_file": "/no/file"}, "no file /no/file; check the path"),
        ({"host": "http://h", "timeout": 0}, "timeout: expected 1 to 86,400, found 0"),
        ({"host": "http://h", "token_env": "A", "cookie_env": "B"}, "one way to sign in, found token_env"),
        ({"host": "http://h", "token_env": "NOT_SET"}, "the environment variable NOT_SET is not set"),
        ({"host": "http://h", "token_file": "/no/file"}, "cannot read the token"),
    ):
        refused(ConfigError, message, lambda given: Connection.open(resolve_options(given, {}, {})), given)
    for option in ("host", "ui_host"):
        given = {"host": "http://127.0.0.1:1", option: "http://user:pass-SENTINEL@127.0.0.1:1/x"}
        with pytest.raises(ConfigError, match=f"{option}: expected an address without user and") as caught:
            resolve_options(given, {}, {})
        assert "SENTINEL" not in str(caught.value)


def test_the_proxy_of_the_environment_is_used(server, monkeypatch):
    monkeypatch.setenv("http_proxy", server.url)
    assert Connection.open(ConnectionOptions(host="http://far.invalid", timeout=5)).server_version
    monkeypatch.setenv("no_proxy", "far.invalid")
    with pytest.raises(ClusterError, match="no such host name"):
        Connection.open(ConnectionOptions(host="http://far.invalid", timeout=2))


def test_a_signed_in_proxy_gets_the_client_id_and_no_variable_of_kfp_wins_over_a_flag(server, monkeypatch):
    monkeypatch.setattr("kfp.client.auth.get_auth_token", lambda client_id, *_: (f"for {client_id}", False))
    server.token = "for my-client"
    assert connect(server, iap_client_id="my-client").server_version
    monkeypatch.setenv("KF_PIPELINES_IAP_OAUTH2_CLIENT_ID", "from-the-shell")
    monkeypatch.setenv("KF_PIPELINES_ENDPOINT", "http://from-the-shell")
    monkeypatch.setenv("MY_TOKEN", "eA==")
    server.token = "eA=="
    given = resolve_options({"host": server.url, "token_env": "MY_TOKEN"}, {})
    assert Connection.open(given).host == server.url


def test_a_client_sends_nothing_and_forgets_its_namespace(server, connection, capsys, tmp_path, monkeypatch):
    """What kfp 2.17 does while a client is made is its own; a connection adds nothing to it."""
    connection.call("making an experiment", connection.client.create_experiment, "one")
    assert capsys.readouterr().out == ""
    server.requests.clear()
    made = Connection(connection.client, options(server, namespace="team"), "")
    assert (made.host, made.namespace, made.server_version) == (server.url, "team", "")
    assert server.requests == []
    # `_context_setting` of kfp.Client 2.17: what `get_user_namespace` reads, and fills requests with.
    file = tmp_path / "context.json"
    monkeypatch.setattr("kfp.Client._LOCAL_KFP_CONTEXT", str(file))
    connection.client.set_user_namespace("team")
    assert connection.client.get_user_namespace() == "team" and file.exists()
    written = file.read_text()
    forget_namespace(connection.client)
    assert connection.client.get_user_namespace() == "" and file.read_text() == written


def test_a_flag_wins_over_the_environment_and_that_over_the_settings_also_with_another_way_to_sign_in():
    environment = {"KF_PIPELINES_ENDPOINT": "http://env", "DETFLOW_NAMESPACE": "env"}
    settings = {"host": "http://settings", "namespace": "settings", "timeout": 7, "ca_file": ""}
    found = resolve_options({"host": "http://flag", "namespace": None}, settings, environment)
    assert found == ConnectionOptions(host="http://flag", namespace="env", timeout=7)
    # A flag may switch something off.
    assert not resolve_options({"verify_tls": False}, {"verify_tls": True}, {}).verify_tls
    assert resolve_options({"verify_tls": None}, {"verify_tls": True}, {}).verify_tls
    environment = {"KF_PIPELINES_SA_TOKEN_PATH": "/token"}
    settings = {"cookie_env": "COOKIE"}
    assert resolve_options({}, settings, environment) == ConnectionOptions(token_file="/token")
    assert resolve_options({"token_env": "T"}, settings, environment) == ConnectionOptions(token_env="T")
    assert resolve_options({}, settings, {}) == ConnectionOptions(cookie_env="COOKIE")


@pytest.fixture
def secret_in(tmp_path, monkeypatch):
    """Put a secret where an option reads it, and return what the option is set to."""

    def put(option, secret):
        (tmp_path / "token").write_text(secret)
        monkeypatch.setenv("MY_SECRET", secret)
        return {option: str(tmp_path / "token") if option == "token_file" else "MY_SECRET"}

    return put


def test_a_secret_that_cannot_be_sent_is_refused_and_none_shows_itself(secret_in):
    for option, secret, found in (
        ("token_env", "tok-SENTINEL\nrest-SENTINEL", "a line break after 12 characters"),
        ("token_env", "tok-SENTINEL\u2026", r"the character U\+2026 after 12 characters"),
        ("token_env", "tok SENTINEL", r"the character U\+0020 after 3 characters"),
        ("cookie_env", "s=SENTINEL-1\r\nX: y", "a line break after 12 characters"),
        ("cookie_env", "s=SENTINEL-1\u2026", r"the character U\+2026 after 12 characters"),
        ("token_file", "tok-SENTINEL\nsecond line\n", "a line break after 12 characters"),
    ):
        given = secret_in(option, secret)
        with pytest.raises(ConfigError, match=f"{option}: .*found {found}; write the secret again") as caught:
            Connection.open(ConnectionOptions(host="http://127.0.0.1:1", **given))
        assert "SENTINEL" not in str(caught.value)
    found = read_credentials(ConnectionOptions(**secret_in("cookie_env", " a=1; b=2 ")))
    assert found.arguments == {"cookies": "a=1; b=2"} and "a=1" not in repr(found)
    found = read_credentials(ConnectionOptions(**secret_in("token_env", "tok-SENTINEL")))
    assert "SENTINEL" not in repr(found)


def test_a_server_that_sends_the_secret_back_and_a_token_file_that_goes_bad_print_none(server, secret_in):
    for option in ("token_env", "cookie_env", "token_file"):
        secret = f"s=SENTINEL-{option}"
        connection = connect(server, **secret_in(option, secret))
        server.misbehave("GET .*experiments", (500, f"you sent Bearer {secret} \x1b]0;pwned\x07"))
        caught = refused(ClusterError, "", connection.call, "listing", connection.client.list_experiments)
        assert "you sent Bearer ***" in str(caught) and "SENTINEL" not in str(caught)
        assert "\x1b" not in str(caught)
        assert redact(f"{server.url} {secret}") == f"{server.url} ***", "only the secret is hidden"
    given = secret_in("token_file", "fine-token")
    connection = connect(server, **given)
    secret_in("token_file", "tok-SENTINEL\nmore")
    with pytest.raises(ConfigError, match="found a line break") as caught:
        connection.call("listing", connection.client.list_experiments)
    assert "SENTINEL" not in str(caught.value)
    for path, message in (
        ("/no/token", "cannot read the token"),
        ("/dev/zero", "expected a token, found more than 65,536 characters in /dev/zero"),
    ):
        refused(ConfigError, message, TokenFile(path).read)
    secret_in("token_file", "\n")
    refused(ConfigError, "is empty; write a token into it", connect, server, **given)
