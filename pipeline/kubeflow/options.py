"""How a Kubeflow Pipelines server is reached, and which source of an option wins."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from typing import Any

from detection_core.errors import ConfigError


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConnectionOptions:
    """How a server is reached. Secrets are named by file or variable, never written down here.

    Attributes:
        host: address of the server; empty: the service inside the cluster, else the kube context's proxy.
        namespace: the user's namespace; empty on a single-user server.
        ui_host: address of the user interface for links; empty: the host.
        token_file: file with a bearer token, read anew for every request, as the kubelet renews it.
        token_env: environment variable that holds a bearer token.
        cookie_env: environment variable that holds the session cookie of a login page.
        iap_client_id: OAuth client id of Google's Identity-Aware Proxy.
        ca_file: certificates of the server's authority.
        verify_tls: False accepts any certificate.
        kube_context: context of the kubeconfig, where no host is given.
        timeout: seconds that one request may take.
    """

    host: str = ""
    namespace: str = ""
    ui_host: str = ""
    token_file: str = ""
    token_env: str = ""
    cookie_env: str = ""
    iap_client_id: str = ""
    ca_file: str = ""
    verify_tls: bool = True
    kube_context: str = ""
    timeout: int = 30


# Variables that kfp itself knows where it has one, so that a shell set up for kfp works here.
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
    """Merge the three sources: a flag wins over the environment, the environment over the settings file.

    Args:
        flags: option to value; None or empty where the flag was not given.
        settings: option to value, from the settings file.
        environment: variables; those of the process without it.
    """
    environment = os.environ if environment is None else environment
    named = {option: environment.get(variable, "") for option, variable in VARIABLES.items()}
    values: dict[str, Any] = {}
    # From the weakest to the strongest; a way to sign in replaces every weaker one.
    for source in (settings, named, flags):
        given = {k: v for k, v in source.items() if v not in (None, "")}
        if any(k in given for k in _SIGN_IN):
            values = {k: v for k, v in values.items() if k not in _SIGN_IN}
        values |= given
    return ConnectionOptions(**values)


def check_options(options: ConnectionOptions) -> None:
    """Refuse what cannot be used.

    Raises:
        ConfigError: naming the option.
    """
    if options.host and not re.match(r"https?://[^/\s]+", options.host):
        raise ConfigError(
            f"expected an address that starts with http:// or https://, found {options.host!r}", where="host"
        )
    for name in ("host", "ui_host"):
        if "@" in getattr(options, name).partition("://")[2].partition("/")[0]:
            raise ConfigError(
                "expected an address without user and password, which would stand in every message and link; "
                "leave them out, and sign in with --token-env, --token-file or --cookie-env",
                where=name,
            )
    if options.ca_file and not os.path.isfile(options.ca_file):
        raise ConfigError(f"no file {options.ca_file}; check the path", where="ca_file")
    if options.timeout < 1:
        raise ConfigError(f"expected 1 second or more, found {options.timeout}", where="timeout")
    given = [n for n in _SIGN_IN if getattr(options, n)]
    if len(given) > 1:
        raise ConfigError(f"expected one way to sign in, found {' and '.join(given)}", where="connection")
