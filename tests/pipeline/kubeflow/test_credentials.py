from __future__ import annotations

import pytest

from detection_core.errors import ConfigError
from detection_core.redaction import redact
from pipeline.kubeflow.api_errors import ClusterError
from pipeline.kubeflow.connection import Connection
from pipeline.kubeflow.connection_options import resolve_options
from pipeline.kubeflow.credentials import TokenFile, read_credentials
from pipeline.settings.connection_settings import ConnectionOptions


@pytest.mark.parametrize(
    ("option", "secret", "found"),
    [
        ("token_env", "tok-SENTINEL\nrest-SENTINEL", "a line break after 12 characters"),
        ("token_env", "tok-SENTINEL\u2026", r"the character U\+2026 after 12 characters"),
        ("token_env", "tok SENTINEL", r"the character U\+0020 after 3 characters"),
        ("cookie_env", "s=SENTINEL-1\r\nX: y", "a line break after 12 characters"),
        ("cookie_env", "s=SENTINEL-1\u2026", r"the character U\+2026 after 12 characters"),
        ("token_file", "tok-SENTINEL\nsecond line\n", "a line break after 12 characters"),
    ],
)
def test_a_secret_that_cannot_be_sent_is_refused_and_not_told(tmp_path, monkeypatch, option, secret, found):
    name = "MY_SECRET"
    monkeypatch.setenv(name, secret)
    if option == "token_file":
        name = str(tmp_path / "token")
        (tmp_path / "token").write_text(secret)
    with pytest.raises(ConfigError, match=f"{option}: .*found {found}; write the secret again") as caught:
        Connection.open(ConnectionOptions(host="http://127.0.0.1:1", **{option: name}))
    assert "SENTINEL" not in str(caught.value)


def test_a_cookie_may_have_spaces(monkeypatch):
    monkeypatch.setenv("COOKIE", " a=1; b=2 ")
    assert read_credentials(ConnectionOptions(cookie_env="COOKIE")).arguments == {"cookies": "a=1; b=2"}


def test_credentials_do_not_show_themselves(monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "tok-SENTINEL")
    assert "SENTINEL" not in repr(read_credentials(ConnectionOptions(token_env="MY_TOKEN")))


@pytest.mark.parametrize("option", ["token_env", "cookie_env", "token_file"])
def test_a_server_that_sends_the_secret_back_does_not_get_it_printed(server, tmp_path, monkeypatch, option):
    monkeypatch.setenv("MY_SECRET", "s=SENTINEL-123")
    (tmp_path / "token").write_text("s=SENTINEL-123\n")
    name = str(tmp_path / "token") if option == "token_file" else "MY_SECRET"
    connection = Connection.open(ConnectionOptions(host=server.url, timeout=5, **{option: name}))
    server.misbehave("GET .*experiments", (500, "you sent Bearer s=SENTINEL-123 \x1b]0;pwned\x07"))
    with pytest.raises(ClusterError) as caught:
        connection.call("listing", connection.client.list_experiments)
    assert "you sent Bearer ***" in str(caught.value) and "SENTINEL" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_only_the_secret_is_hidden(server, tmp_path):
    (tmp_path / "token").write_text("fine-token")
    Connection.open(ConnectionOptions(host=server.url, token_file=str(tmp_path / "token"), timeout=5))
    assert redact(f"{server.url} fine-token") == f"{server.url} ***"


def test_a_token_file_that_goes_bad_is_one_message(server, tmp_path):
    path = tmp_path / "token"
    path.write_text("fine-token")
    connection = Connection.open(ConnectionOptions(host=server.url, token_file=str(path), timeout=5))
    path.write_text("tok-SENTINEL\nmore")
    with pytest.raises(ConfigError, match="found a line break") as caught:
        connection.call("listing", connection.client.list_experiments)
    assert "SENTINEL" not in str(caught.value)
    path.unlink()
    with pytest.raises(ConfigError, match="cannot read the token"):
        TokenFile(str(path)).read()


def test_a_token_file_without_end_is_refused():
    with pytest.raises(ConfigError, match="expected a token, found more than 65,536 characters in /dev/zero"):
        TokenFile("/dev/zero").read()


@pytest.mark.parametrize("option", ["host", "ui_host"])
def test_an_address_with_user_and_password_is_refused(option):
    address = "http://user:pass-SENTINEL@127.0.0.1:1/x"
    with pytest.raises(
        ConfigError, match=f"{option}: expected an address without user and password"
    ) as caught:
        resolve_options({"host": "http://127.0.0.1:1", option: address}, {}, {})
    assert "SENTINEL" not in str(caught.value)
