"""Optional extras of the installation: what each adds, and how to install it."""

import dataclasses
import importlib.machinery
import importlib.util
import sys
from collections.abc import Mapping, Sequence

from detection_core.bounded.plain_yaml import module_table
from detection_core.errors import ConfigError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Extra:
    """An extra of the distribution, as in `detflow[NAME]`, and how to install it; "": by pip."""

    name: str
    modules: Sequence[str]
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
    name: Extra(name=name, **entry) for name, entry in module_table(__file__).items()
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
