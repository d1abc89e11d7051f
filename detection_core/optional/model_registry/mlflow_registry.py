"""Published versions in MLflow's model registry."""

import logging
import re
from collections.abc import Mapping
from typing import Any

from detection_core.capabilities import import_extra
from detection_core.errors import ConfigError, one_line
from detection_core.redaction import hide_credentials

_logger = logging.getLogger(__name__)

_NOT_A_TAG = re.compile(r"[^/\w.\- :]")
_VERSION = "detflow.version"


def register_version(
    registry: str, name: str, source: str, number: int, values: Mapping[str, float | None]
) -> str:
    """Register a published version, unless it is registered already.

    The tag `detflow.version` has the version's number; the values become tags, too. A missing registered
    model is created.

    Args:
        registry: address of MLflow's server; "": MLFLOW_REGISTRY_URI or MLFLOW_TRACKING_URI.
        name: of the registered model.
        source: folder of the version's SavedModel. MLflow's server refuses local folders.
        number: of the version at its push destination.
        values: name to value, such as metrics; None is left out.

    Returns:
        MLflow's own number of the version.

    Raises:
        ConfigError: if MLflow is not installed, cannot be reached or refuses the version.
    """
    published = f"the registration of version {number}, which is published"
    mlflow = import_extra("mlflow", "mlflow", published, "push.register")
    address = registry or mlflow.get_registry_uri()
    hide_credentials(address)
    try:
        return _registered(mlflow.MlflowClient(address, address), name, source, number, values)
    # Also errors of the connection and of MLflow's own parsers: each one has to name the setting.
    except Exception as error:
        raise ConfigError(
            f"version {number} is published but not registered: MLflow at {address} refuses it or cannot be"
            f" reached ({one_line(f'{type(error).__name__}: {error}', 300)}); check push.registry; run"
            " again to register it",
            where="push.register",
        ) from error


def _registered(client: Any, name: str, source: str, number: int, values: Mapping[str, float | None]) -> str:
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    for found in client.search_model_versions(f"name = '{name}' and tags.`{_VERSION}` = '{number}'"):
        if found.source == source:
            return str(found.version)
    tags = {_NOT_A_TAG.sub("_", key): str(value) for key, value in values.items() if value is not None}
    made = client.create_model_version(name, source, tags={**tags, _VERSION: str(number)})
    _logger.info("push | version %d is version %s of %s in MLflow", number, made.version, name)
    return str(made.version)
