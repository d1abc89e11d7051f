"""The arguments by which a verb finds the Kubeflow Pipelines server."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pipeline.cli.base import Argument, argument

if TYPE_CHECKING:
    from pipeline.kubeflow.connection import Connection
    from pipeline.settings.connection_settings import ConnectionOptions
    from pipeline.settings.workflow_settings import PipelineSettings

# A flag that is not given is None, so that the environment and the settings count.
SERVER: tuple[Argument, ...] = (
    argument("--host", help="address of the server; also KF_PIPELINES_ENDPOINT, kubeflow.host"),
    argument("--namespace", help="your namespace; also DETFLOW_NAMESPACE, kubeflow.namespace"),
    argument("--token-file", metavar="FILE", help="file with a bearer token, read anew for each request"),
    argument("--token-env", metavar="NAME", help="environment variable that holds a bearer token"),
    argument("--cookie-env", metavar="NAME", help="environment variable that holds a session cookie"),
    argument("--iap-client-id", metavar="ID", help="client id of Google's Identity-Aware Proxy"),
    argument("--ca-file", metavar="FILE", help="certificates of the server's authority"),
    argument(
        "--no-verify-tls",
        dest="verify_tls",
        action="store_const",
        const=False,
        help="accept any certificate",
    ),
    argument("--kube-context", metavar="NAME", help="context of the kubeconfig, where there is no host"),
    argument("--ui-host", metavar="URL", help="address of the user interface, for links"),
    argument("--timeout", type=int, metavar="SECONDS", help="limit of one request (default: 30)"),
)
SETTINGS_OF_SERVER = argument(
    "--settings", default="", metavar="FILE", help="settings file whose kubeflow section names the server"
)
PARAM = argument(
    "--param",
    action="append",
    default=[],
    metavar="NAME=VALUE",
    dest="parameters",
    help="value of a pipeline parameter; may be given several times",
)


def open_connection(arguments: argparse.Namespace, settings: PipelineSettings | None = None) -> Connection:
    """Connect to the server that flags, environment and settings name, in this order.

    Args:
        arguments: of a verb that takes `SERVER`.
        settings: of the workflow; None: those of `--settings`, if the verb takes it and it is given.

    Raises:
        ConfigError: for options that cannot be used.
        ClusterError: when the server cannot be reached or refuses.
    """
    from pipeline.kubeflow.connection import connect

    return connect(server_options(arguments, settings))


def server_options(
    arguments: argparse.Namespace, settings: PipelineSettings | None = None
) -> ConnectionOptions:
    """Return how the server is reached, as `open_connection` does it.

    Raises:
        ConfigError: for a settings file that cannot be used.
    """
    from pipeline.kubeflow.connection_options import resolve_options
    from pipeline.settings.connection_settings import ConnectionOptions

    path = getattr(arguments, "settings", "")
    if settings is None and path:
        from pipeline.settings.settings_file import load_settings

        settings = load_settings(path, check_files=False)
    named = settings.kubeflow.connection_options().model_dump() if settings else {}
    flags = {name: getattr(arguments, name, None) for name in ConnectionOptions.model_fields}
    return resolve_options(flags, named)
