"""Which source of an option of the connection wins: flag, environment or settings file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from detection_core.errors import ConfigError
from pipeline.settings.connection_settings import ConnectionOptions
from pipeline.settings.validation_errors import Source, build_settings

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

    Raises:
        ConfigError: naming an option that cannot be used.
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
    return build_settings(ConnectionOptions, values, Source("connection"))


def refuse_unusable_options(options: ConnectionOptions) -> None:
    """Refuse a file that is not there, and two ways to sign in.

    Raises:
        ConfigError: naming the option.
    """
    if options.ca_file and not os.path.isfile(options.ca_file):
        raise ConfigError(f"no file {options.ca_file}; check the path", where="ca_file")
    given = [n for n in _SIGN_IN if getattr(options, n)]
    if len(given) > 1:
        raise ConfigError(f"expected one way to sign in, found {' and '.join(given)}", where="connection")
