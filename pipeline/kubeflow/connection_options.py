"""Options of a connection (flag, environment or settings file), and the credentials that they name.

Secrets are read, checked and registered for redaction before any other use.
"""

import dataclasses
import os
import re
from collections.abc import Mapping
from typing import Any

from detection_core.errors import ConfigError
from detection_core.redaction import find_header_fault, hide
from pipeline.settings.kubeflow_settings import ConnectionOptions
from pipeline.settings.validation_errors import locating_errors

# kfp's variables where they exist, so that a shell configured for kfp works here.
VARIABLES: Mapping[str, str] = {
    "host": "KF_PIPELINES_ENDPOINT",
    "ui_host": "KF_PIPELINES_UI_ENDPOINT",
    "iap_client_id": "KF_PIPELINES_IAP_OAUTH2_CLIENT_ID",
    "token_file": "KF_PIPELINES_SA_TOKEN_PATH",
    "namespace": "DETFLOW_NAMESPACE",
}
_SIGN_IN = ("token_file", "token_env", "cookie_env", "iap_client_id")


def resolve_options(
    flags: Mapping[str, Any], settings: Mapping[str, Any], environment: Mapping[str, str] | None = None
) -> ConnectionOptions:
    """Merge the three sources: flags override the environment, which overrides the settings file.

    A missing flag is None or empty. Without `environment` the variables of the process apply.

    Raises:
        ConfigError: naming an invalid option.
    """
    environment = os.environ if environment is None else environment
    variables = {option: environment.get(variable, "") for option, variable in VARIABLES.items()}
    values: dict[str, Any] = {}
    # In order of increasing precedence; a sign-in option replaces all of lower precedence.
    for source in (settings, variables, flags):
        given = {k: v for k, v in source.items() if v not in (None, "")}
        if any(k in given for k in _SIGN_IN):
            values = {k: v for k, v in values.items() if k not in _SIGN_IN}
        values |= given
    with locating_errors(ConnectionOptions, {"": "connection"}):
        return ConnectionOptions.model_validate(values)


def refuse_unusable_options(options: ConnectionOptions) -> None:
    """Refuse a missing file, and two ways to sign in. Raises ConfigError naming the option."""
    if options.ca_file and not os.path.isfile(options.ca_file):
        raise ConfigError(f"no file {options.ca_file}; check the path", where="ca_file")
    given = [n for n in _SIGN_IN if getattr(options, n)]
    if len(given) > 1:
        raise ConfigError(f"expected one way to sign in, found {' and '.join(given)}", where="connection")


# Path of the token that the kubelet projects for the pipelines API.
IN_CLUSTER_TOKEN = "/var/run/secrets/kubeflow/pipelines/token"

# A header's value: one line of printable ASCII. A token has no spaces either (RFC 6750, b64token).
_COOKIE, _TOKEN = re.compile(r"[\x20-\x7e]+"), re.compile(r"[\x21-\x7e]+")


@dataclasses.dataclass(frozen=True)
class Credentials:
    """The arguments of `kfp.Client`, and their source, for messages; empty without credentials."""

    source: str = ""
    arguments: dict[str, Any] = dataclasses.field(default_factory=dict, repr=False)


def read_credentials(options: ConnectionOptions) -> Credentials:
    """Read the credentials that the options name; ConfigError, without the secret, for an invalid one."""
    if options.token_file:
        return _of_file(options.token_file)
    if options.token_env:
        token = _variable(options.token_env, "token_env", _TOKEN)
        return Credentials(f"${options.token_env}", {"existing_token": token})
    if options.cookie_env:
        cookie = _variable(options.cookie_env, "cookie_env", _COOKIE)
        return Credentials(f"${options.cookie_env}", {"cookies": cookie})
    if options.iap_client_id:
        return Credentials("the Identity-Aware Proxy", {"client_id": options.iap_client_id})
    return _of_file(IN_CLUSTER_TOKEN) if os.path.isfile(IN_CLUSTER_TOKEN) else Credentials()


def _of_file(path: str) -> Credentials:
    token = TokenFile(path)
    token.read()
    return Credentials(path, {"credentials": token})


# Servers take headers of 8 to 64 KiB.
_MOST_CHARACTERS = 1 << 16


class TokenFile:
    """A bearer token in a file, read again for every request, because the kubelet renews it.

    It has the methods of kfp's `TokenCredentialsBase` that `kfp.Client` calls.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def read(self) -> str:
        """Return the token. Raises ConfigError when it is missing or invalid."""
        try:
            with open(self._path, encoding="utf-8") as f:
                text = f.read(_MOST_CHARACTERS + 1)
        except (OSError, UnicodeDecodeError) as e:
            raise ConfigError(
                f"cannot read the token ({e}); check path and rights", where="token_file"
            ) from e
        if len(text) > _MOST_CHARACTERS:
            raise ConfigError(
                f"expected a token, found more than {_MOST_CHARACTERS:,} characters in {self._path}; name"
                " a file that holds only the token",
                where="token_file",
            )
        if not text.strip():
            raise ConfigError(f"{self._path} is empty; write a token into it", where="token_file")
        return _checked(text, self._path, "token_file", _TOKEN)

    def refresh_api_key_hook(self, configuration: Any) -> None:
        """Set the current token in a client's configuration."""
        configuration.api_key["authorization"] = self.read()


def _variable(name: str, where: str, allowed: re.Pattern[str]) -> str:
    value = os.environ.get(name, "")
    if not value.strip():
        raise ConfigError(f"the environment variable {name} is not set; set it to the secret", where=where)
    return _checked(value, f"the environment variable {name}", where, allowed)


def _checked(text: str, source: str, where: str, allowed: re.Pattern[str]) -> str:
    """Return a secret, stripped and registered for redaction."""
    secret = text.strip()
    hide(secret)
    fault = find_header_fault(secret, allowed)
    if fault:
        raise ConfigError(f"{source}: {fault}; write the secret again, and nothing else", where=where)
    return secret
