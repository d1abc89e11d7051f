"""What installed packages add: losses, backbones, metrics, formats, families, components.

A package names a function without arguments in its metadata, which calls the registration functions:

    [project.entry-points."detflow.extensions"]
    mine = "my_package.parts:register"

The command line, the steps and the library call it before anything is checked. A program that registers its
parts itself needs none of this.
"""

import functools
import importlib.metadata
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from detection_core.errors import ConfigError

GROUP = "detflow.extensions"

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


@functools.cache
def load_extensions() -> tuple[str, ...]:
    """Register the parts of installed packages, once in a process.

    Returns:
        `PACKAGE==VERSION` of each extension package, sorted.

    Raises:
        ConfigError: if a package's function cannot be imported or fails; names it.
    """
    found = set()
    for entry in importlib.metadata.entry_points(group=GROUP):
        try:
            entry.load()()
        except Exception as error:
            raise ConfigError(
                f"expected a function that registers parts, found one that fails ({type(error).__name__}:"
                f" {error}); correct or uninstall the package",
                where=f"{GROUP} {entry.name} = {entry.value}",
            ) from error
        if entry.dist is not None:
            found.add(f"{entry.dist.name}=={entry.dist.version}")
    return tuple(sorted(found))


def with_extensions(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Return a function that loads the extensions before it runs."""

    @functools.wraps(function)
    def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        load_extensions()
        return function(*args, **kwargs)

    return call
