import pytest

from detection_core.errors import ConfigError
from detection_core.redaction import redact
from pipeline.kubeflow.api_errors import ClusterError
from pipeline.kubeflow.connection import Connection
from pipeline.kubeflow.connection_options import resolve_options
from pipeline.kubeflow.credentials import TokenFile, read_credentials
from pipeline.settings.connection_settings import ConnectionOptions
from tests.pipeline.kubeflow.clients import connect


@pytest.fixture
def secret_in(tmp_path, monkeypatch):
    """Put a secret where an option reads it, and return what the option is set to."""

    def put(option, secret):
        (tmp_path / "token").write_text(secret)
        monkeypatch.setenv("MY_SECRET", secret)
        return {option: str(tmp_path / "token") if option == "token_file" else "MY_SECRET"}

    return put


def test_a_secret_that_cannot_be_sent_is_refused_and_not_told(secret_in):
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


def test_a_cookie_may_have_spaces_and_credentials_do_not_show_themselves(secret_in):
    found = read_credentials(ConnectionOptions(**secret_in("cookie_env", " a=1; b=2 ")))
    assert found.arguments == {"cookies": "a=1; b=2"} and "a=1" not in repr(found)
    found = read_credentials(ConnectionOptions(**secret_in("token_env", "tok-SENTINEL")))
    assert "SENTINEL" not in repr(found)


def test_a_server_that_sends_the_secret_back_does_not_get_it_printed(server, secret_in):
    for option in ("token_env", "cookie_env", "token_file"):
        secret = f"s=SENTINEL-{option}"
        connection = connect(server, **secret_in(option, secret))
        server.misbehave("GET .*experiments", (500, f"you sent Bearer {secret} \x1b]0;pwned\x07"))
        with pytest.raises(ClusterError) as caught:
            connection.call("listing", connection.client.list_experiments)
        assert "you sent Bearer ***" in str(caught.value) and "SENTINEL" not in str(caught.value)
        assert "\x1b" not in str(caught.value)
        assert redact(f"{server.url} {secret}") == f"{server.url} ***", "only the secret is hidden"


def test_a_token_file_that_goes_bad_is_one_message(server, secret_in):
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
        with pytest.raises(ConfigError, match=message):
            TokenFile(path).read()
    secret_in("token_file", "\n")
    with pytest.raises(ConfigError, match="is empty; write a token into it"):
        connect(server, **given)


def test_an_address_with_user_and_password_is_refused():
    for option in ("host", "ui_host"):
        given = {"host": "http://127.0.0.1:1", option: "http://user:pass-SENTINEL@127.0.0.1:1/x"}
        with pytest.raises(ConfigError, match=f"{option}: expected an address without user and") as caught:
            resolve_options(given, {}, {})
        assert "SENTINEL" not in str(caught.value)
