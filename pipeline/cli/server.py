"""Arguments for the connection to a Kubeflow Pipelines server."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pipeline.cli.base import Argument, argument

if TYPE_CHECKING:
    from pipeline.kubeflow.connection import Connection
    from pipeline.settings.kubeflow_settings import ConnectionOptions
    from pipeline.settings.workflow_settings import PipelineSettings

# Metavars of the flags.
_METAVARS = {"timeout": "SECONDS", "ui_host": "URL", "host": "URL"}
_METAVAR_ENDINGS = {"_file": "FILE", "_env": "NAME", "_context": "NAME", "_id": "ID"}


def server_arguments() -> Iterator[Argument]:
    """Yield one flag for each of the ConnectionOptions.

    A missing flag is None, so that the environment and the settings apply.
    """
    from pipeline.kubeflow.connection_options import VARIABLES
    from pipeline.settings.kubeflow_settings import ConnectionOptions, ConnectionSettings

    for name, field in ConnectionOptions.model_fields.items():
        flag = name.replace("_", "-")
        section = "kubeflow.connection" if name in ConnectionSettings.model_fields else "kubeflow"
        if field.annotation is bool:
            yield argument(
                f"--no-{flag}",
                dest=name,
                action="store_const",
                const=False,
                help=f"Sets {section}.{name} to false. {field.description}",
            )
            continue
        default = f" Default: {field.default}." if field.default else ""
        sources = [VARIABLES[name]] if name in VARIABLES else []
        endings = (word for ending, word in _METAVAR_ENDINGS.items() if name.endswith(ending))
        yield argument(
            f"--{flag}",
            type=int if field.annotation is int else str,
            metavar=_METAVARS.get(name) or next(endings, name.upper()),
            help=f"{field.description!s} Also: {', '.join([*sources, f'{section}.{name}'])}.{default}",
        )


def open_connection(arguments: argparse.Namespace, settings: PipelineSettings | None = None) -> Connection:
    """Connect to the server named by flags, environment or settings, in this order of precedence.

    The arguments have `SERVER`. Without `settings` those of `--settings` apply, if given.

    Raises:
        ConfigError: for invalid options.
        ClusterError: when the server cannot be reached or refuses.
    """
    from pipeline.kubeflow.connection import Connection

    return Connection.open(server_options(arguments, settings))


def server_options(
    arguments: argparse.Namespace, settings: PipelineSettings | None = None
) -> ConnectionOptions:
    """Return the connection options, as in `open_connection`; ConfigError for invalid settings."""
    from pipeline.kubeflow.connection_options import resolve_options
    from pipeline.settings.kubeflow_settings import ConnectionOptions

    path = getattr(arguments, "settings", "")
    if settings is None and path:
        from pipeline.settings.settings_file import load_settings

        settings = load_settings(path, check_files=False)
    named = settings.kubeflow.connection_options().model_dump() if settings else {}
    flags = {name: getattr(arguments, name, None) for name in ConnectionOptions.model_fields}
    return resolve_options(flags, named)
