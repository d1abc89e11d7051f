"""Connection to a Kubeflow Pipelines server: keys of settings, flags of verbs, options of a client."""

from __future__ import annotations

import re
from typing import Annotated

import pydantic
from pydantic_core import PydanticCustomError

from pipeline.settings.setting_types import Path, Settings, Text, between, setting

_NO_SECRET = (
    "an address without user and password, which would stand in every message and link; leave them out, and "
    "sign in with --token-env, --token-file or --cookie-env"
)


def _check_address(value: str) -> str:
    if (value and not re.fullmatch(r"https?://[^/\s]+(/\S*)?", value)) or len(value) > 2048:
        expected = "an address that starts with http:// or https://"
        raise PydanticCustomError("rule", "{expected}", {"expected": expected})
    if "@" in value.partition("://")[2].partition("/")[0]:
        raise PydanticCustomError("rule", "{expected}", {"expected": _NO_SECRET, "found": "some"})
    return value


Address = Annotated[
    Text,
    pydantic.AfterValidator(_check_address),
    pydantic.WithJsonSchema({"type": "string", "pattern": r"^(https?://[^/\s@]+(/\S*)?)?$"}),
]


class ConnectionSettings(Settings):
    """Connection to the server, apart from its address. Secrets are given by file or variable."""

    ui_host: Address = setting("", "Address of the user interface, for links.", unset="the host")
    token_file: Path = setting("", "File with a bearer token, read again for each request.")
    token_env: Text = setting("", "Environment variable that holds a bearer token.")
    cookie_env: Text = setting("", "Environment variable that holds the session cookie of a login page.")
    iap_client_id: Text = setting("", "OAuth client id of Google's Identity-Aware Proxy.")
    ca_file: Path = setting("", "File with the certificates of the server's authority.")
    verify_tls: bool = setting(True, "Whether the server's certificate is checked; false accepts any.")
    kube_context: Text = setting(
        "", "Context of the kubeconfig, where there is no host.", unset="the current one"
    )
    timeout: Annotated[int, between(1, 86_400)] = setting(30, "Limit of one request.", unit="seconds")


class ConnectionOptions(ConnectionSettings):
    """Connection to one server."""

    host: Address = setting(
        "",
        "Address of the Kubeflow Pipelines API.",
        unset="the service inside the cluster, else the kube context's proxy",
        examples=["http://localhost:8080"],
    )
    namespace: Text = setting("", "Your namespace.", unset="that of the pod; none on a single-user server")
