"""The optional parts of the installation: what each is good for, and how it is installed."""

from __future__ import annotations

import dataclasses
import importlib.machinery
import importlib.util
import sys
from collections.abc import Mapping

from detection_core.errors import ConfigError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Extra:
    """An extra of the distribution.

    Attributes:
        name: as in `detflow[NAME]`.
        modules: what it brings, by the names that are imported.
        gives: what works with it.
        remedy: how to install it.
    """

    name: str
    modules: tuple[str, ...]
    gives: str
    remedy: str

    def missing(self) -> list[str]:
        """Return the modules that are not installed; nothing is imported."""
        return [name for name in self.modules if not _is_installed(name)]


def _is_installed(module: str) -> bool:
    package, _, inside = module.partition(".")
    spec = importlib.util.find_spec(package)
    if spec is None or not inside:
        return spec is not None
    if module in sys.modules:
        return sys.modules[module] is not None
    # `importlib.util` would import the package to find what is inside it.
    return importlib.machinery.PathFinder.find_spec(module, spec.submodule_search_locations) is not None


EXTRAS: Mapping[str, Extra] = {
    extra.name: extra
    for extra in (
        Extra(
            name="tfx",
            modules=("tfx", "ml_metadata"),
            gives="`detflow run` and `detflow schedule run-local`",
            # Its pins contradict those of TensorFlow 2.21, so a resolver needs overrides.
            remedy="pip cannot resolve TFX's pins: `make setup` in a checkout, or the lines for [tfx] in"
            " docs/index.md",
        ),
        Extra(
            name="cluster",
            modules=("kfp", "kfp.kubernetes", "kfp_server_api", "kubernetes"),
            gives="`detflow compile`, `submit`, `runs`, `schedule` and `doctor --cluster`",
            remedy="install it with `pip install 'detflow[cluster]'`",
        ),
        Extra(
            name="s3",
            modules=("s3fs",),
            gives="paths that begin with s3://",
            remedy="install it with `pip install 'detflow[s3]'`",
        ),
        Extra(
            name="gcs",
            modules=("gcsfs",),
            gives="paths that begin with gs://",
            remedy="install it with `pip install 'detflow[gcs]'`",
        ),
        Extra(
            name="azure",
            modules=("adlfs",),
            gives="paths that begin with abfs://, abfss:// or az://",
            remedy="install it with `pip install 'detflow[azure]'`",
        ),
        Extra(
            name="mlflow",
            modules=("mlflow",),
            gives="trainings that are followed in MLflow",
            remedy="install it with `pip install 'detflow[mlflow]'`",
        ),
        Extra(
            name="wandb",
            modules=("wandb",),
            gives="trainings that are followed in Weights & Biases",
            remedy="install it with `pip install 'detflow[wandb]'`",
        ),
        Extra(
            name="quantizer",
            modules=("ai_edge_quantizer",),
            gives="the formats int16x8, int8_weights and int4_weights of `detflow export`",
            remedy="install it with `pip install 'detflow[quantizer]'`",
        ),
        Extra(
            name="tune",
            modules=("optuna",),
            gives="`detflow tune`",
            remedy="install it with `pip install 'detflow[tune]'`",
        ),
        Extra(
            name="video",
            modules=("av",),
            gives="video files in `detflow predict`",
            remedy="install it with `pip install 'detflow[video]'`",
        ),
    )
}


def require(extra: str, what: str) -> None:
    """Refuse to continue without an extra.

    Args:
        extra: key of `EXTRAS`.
        what: needs it, such as `detflow run`.

    Raises:
        ConfigError: saying what is missing and how it is installed.
    """
    missing = EXTRAS[extra].missing()
    if missing:
        raise ConfigError(
            f"{what}: expected the packages of detflow[{extra}], found no {' and no '.join(missing)};"
            f" {EXTRAS[extra].remedy}"
        )
