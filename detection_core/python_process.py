"""Start Python programs that import nothing from their working directory, and find processes.

`python -m` looks for modules in the working directory first, where a user may have a `pipeline.py`.
"""

import contextlib
import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

_PACKAGES = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def python_command(module: str) -> list[str]:
    """Return the command that runs a module; use it with `python_environment`."""
    return [sys.executable, "-P", "-m", module]


def python_environment() -> dict[str, str]:
    """Return the environment for `python_command`; child programs inherit it."""
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if sysconfig.get_path("purelib") != _PACKAGES:
        path.insert(0, _PACKAGES)  # a checkout that is not installed, found through the working directory
    # An empty entry would be the working directory.
    return {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(filter(None, path))}


@contextlib.contextmanager
def python_started_by_libraries() -> Iterator[None]:
    """Set `python_environment` for programs that libraries start during a `with` block."""
    before = {name: os.environ.get(name) for name in ("PYTHONSAFEPATH", "PYTHONPATH")}
    os.environ.update(python_environment())
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def descendants(parent: int) -> Iterator[int]:
    """Yield the descendants of a process, deepest first; none if the system does not list them."""
    for children in Path(f"/proc/{parent}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, children.read_text().split()):
                yield from descendants(child)
                yield child
