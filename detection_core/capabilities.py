"""Optional capabilities, each in a folder of `detection_core/optional` that nothing imports by name.

To remove a capability, delete its folder and its line here.
"""

import importlib
from typing import Any

from detection_core.errors import ConfigError

CAPABILITIES = {
    "accelerators": "which operations of a TensorFlow Lite file an accelerator runs",
    "ensembles": "fusing the detections of several detectors",
    "mlflow": "logging a training to MLflow",
    "model_registry": "registering published versions in MLflow's model registry",
    "near_duplicates": "finding images that look alike",
    "onnx": "detection by ONNX files",
    "tfdv": "statistics, schema and anomalies of columns, as TensorFlow Data Validation has them",
    "video": "detection in video files",
    "wandb": "logging a training to Weights & Biases",
}
"""Folder in `detection_core/optional` to its function."""


_PACKAGE = "detection_core.optional."


def has_capability(package: str) -> bool:
    """Return whether an optional capability is part of this installation; argument as of `capability`."""
    return package.removeprefix(_PACKAGE) in CAPABILITIES


def capability(package: str) -> Any:
    """Import the package of an optional capability by its full name.

    The name is written out, as the fingerprint of a step's code finds modules by their names.

    Raises:
        ConfigError: if it is not part of this installation.
    """
    if not has_capability(package):
        name = package.removeprefix(_PACKAGE)
        raise ConfigError(
            f"expected the capability {name}, found an installation without it; install all of detflow",
            where="detection_core.optional",
        )
    return importlib.import_module(package)


def import_extra(module: str, extra: str, what: str, where: str = "") -> Any:
    """Import a package that an extra of this distribution installs; `what` needs it.

    Raises:
        ConfigError: if it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"expected the package {module} for {what}, found none; install it with"
            f" `pip install 'detflow[{extra}]'`",
            where=where,
        ) from error
