"""Optional extras of the installation: what each adds, and how to install it."""

import dataclasses
import importlib.machinery
import importlib.util
import sys
from collections.abc import Mapping

from detection_core.errors import ConfigError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Extra:
    """An extra of the distribution, as in `detflow[NAME]`, and how to install it; "": by pip."""

    name: str
    modules: tuple[str, ...]
    gives: str
    how: str = ""

    @property
    def remedy(self) -> str:
        """How to install it."""
        return self.how or f"install it with `pip install 'detflow[{self.name}]'`"

    def missing(self) -> list[str]:
        """Return the modules that are not installed, without importing anything."""
        return [name for name in self.modules if not _is_installed(name)]


def _is_installed(module: str) -> bool:
    package, _, inside = module.partition(".")
    spec = importlib.util.find_spec(package)
    if spec is None or not inside:
        return spec is not None
    if module in sys.modules:
        return sys.modules[module] is not None
    # `importlib.util` would import the package to find its submodules.
    return importlib.machinery.PathFinder.find_spec(module, spec.submodule_search_locations) is not None


EXTRAS: Mapping[str, Extra] = {
    extra.name: extra
    for extra in (
        Extra(
            name="tfx",
            modules=("tfx", "ml_metadata"),
            gives="`detflow run` and `detflow schedule run-local`",
            # Its pins conflict with those of TensorFlow 2.21, so a resolver needs overrides.
            how="pip cannot resolve TFX's pins: `make setup` in a checkout, or the lines for [tfx] in"
            " docs/index.md",
        ),
        Extra(
            name="cluster",
            modules=("kfp", "kfp.kubernetes", "kfp_server_api", "kubernetes"),
            gives="`detflow compile`, `submit`, `runs`, `schedule` and `doctor --cluster`",
        ),
        Extra(name="s3", modules=("s3fs",), gives="paths that begin with s3://"),
        Extra(name="gcs", modules=("gcsfs",), gives="paths that begin with gs://"),
        Extra(name="azure", modules=("adlfs",), gives="paths that begin with abfs://, abfss:// or az://"),
        Extra(name="mlflow", modules=("mlflow",), gives="trainings that are followed in MLflow"),
        Extra(name="wandb", modules=("wandb",), gives="trainings that are followed in Weights & Biases"),
        Extra(
            name="quantizer",
            modules=("ai_edge_quantizer",),
            gives="the formats int16x8, int8_weights and int4_weights of `detflow export`",
        ),
        Extra(name="tune", modules=("optuna",), gives="`detflow tune`"),
        Extra(name="video", modules=("av",), gives="video files in `detflow predict`"),
    )
}


def require(extra: str, what: str) -> None:
    """Raise an error if an extra is missing.

    `extra` is a key of `EXTRAS`, `what` the feature that needs it, such as `detflow run`.

    Raises:
        ConfigError: naming the missing modules and how to install them.
    """
    missing = EXTRAS[extra].missing()
    if missing:
        raise ConfigError(
            f"{what}: expected the packages of detflow[{extra}], found no {' and no '.join(missing)};"
            f" {EXTRAS[extra].remedy}"
        )
