"""Fingerprint of a component's code: our modules that it imports, and package versions.

Imports are read from the syntax trees, without loading modules. Imports inside functions count; type-checking
imports, comments and docstrings do not. A package's tables (YAML) count with its `__init__`. A component's
entry is its `run`. `components.runtime` is excluded: it passes paths to `run` and shows results, but does not
change them.
"""

import ast
import collections
import dataclasses
import functools
import hashlib
import importlib.metadata
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import component_specs
import components
import detection_core
from detection_core.extensions import load_extensions
from detection_core.storage.disk_cache import Cache, entry_key
from detection_core.zoo.cache import cache_folder

PACKAGES = (component_specs, components, detection_core)
_OWN = tuple(package.__name__ for package in PACKAGES)
_NAMED = re.compile(rf"((?:{'|'.join(_OWN)})(?:\.\w+)+)(?::\w+)?")
_DIGITS = 16


def code_version() -> str:
    """Return a fingerprint of all source that a step can execute; used in the image's name."""
    return _all_source(None)[:_DIGITS]


@functools.cache
def _all_source(root: Path | None) -> str:
    digest = hashlib.sha256()
    for folder in _folders(root).values():
        for path in sorted((*folder.rglob("*.py"), *folder.rglob("*.yaml"))):
            digest.update(str(path.relative_to(folder)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.cache
def component_version(component: str, root: Path | None = None) -> str:
    """Return a fingerprint of a component's code, from the folder `root` or where it was imported from.

    What the component imports is kept on disk, as reading the syntax trees of all components takes seconds.
    """
    cache = Cache(os.path.join(cache_folder(), "code"), most_bytes=0, newest=200)
    key = f"{entry_key(component, _all_source(root), sys.version, *_installed())}.json"
    closure = cache.read_json(key)
    if not isinstance(closure, dict) or closure.keys() != {"code", "packages"}:
        own, foreign = import_closure(f"components.{component}.run", root)
        code = entry_key(*(name.encode() + _sources(root).module(name).digest for name in sorted(own)))
        closure = {"code": code, "packages": sorted(package_versions(foreign))}
        cache.write_json(key, closure)
    packages = [f"{name}=={importlib.metadata.version(name)}" for name in closure["packages"]]
    return entry_key(closure["code"], *packages, *map(str, load_extensions()))[:_DIGITS]


@functools.cache
def _installed() -> list[str]:
    """Return names and versions of the installed packages, as their folders are called."""
    folders = [folder for folder in sys.path if os.path.isdir(folder)]
    return sorted(name for folder in folders for name in os.listdir(folder) if name.endswith("-info"))


def import_closure(entry: str, root: Path | None = None) -> tuple[set[str], set[str]]:
    """Return the modules that a module imports, directly and indirectly.

    A name that a package's `__init__` re-exports is followed to its module, without the `__init__`'s other
    imports.

    Args:
        entry: dotted name of one of our modules.
        root: as in `component_version`.

    Returns:
        Names of our modules, including the entry and all packages above, and of modules of other packages.
    """
    sources = _sources(root)
    own: set[str] = set()
    foreign: set[str] = set()
    waiting = [entry]
    while waiting:
        module = waiting.pop()
        if module in own:
            continue
        own.add(module)
        for imported, name in sources.module(module).imports:
            if imported.partition(".")[0] in _OWN:
                waiting += sources.resolve(imported, name)
            else:
                foreign.add(imported)
        waiting += [name for name in sources.module(module).named if sources.path(name)]
    for module in list(own):
        parts = module.split(".")
        own.update(".".join(parts[:length]) for length in range(1, len(parts)))
    return own, foreign


def package_versions(modules: Iterable[str]) -> dict[str, str]:
    """Return the packages of modules, name to version.

    Args:
        modules: dotted names; modules of the standard library and missing modules are ignored.
    """
    versions = {}
    for module in modules:
        top = module.partition(".")[0]
        candidates = sorted(set(_distributions().get(top, ())))
        if len(candidates) > 1:  # namespace packages, such as `google`
            candidates = [name for name in candidates if _has_module(name, module)] or candidates
        if top not in sys.stdlib_module_names:
            versions.update({name: importlib.metadata.version(name) for name in candidates})
    return versions


@functools.cache
def _distributions() -> dict[str, list[str]]:
    return dict(importlib.metadata.packages_distributions())


@functools.cache
def _has_module(distribution: str, module: str) -> bool:
    folder = module.replace(".", "/")
    names = (file.as_posix() for file in importlib.metadata.files(distribution) or ())
    return any(name.startswith((f"{folder}/", f"{folder}.")) for name in names)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Module:
    """Imports of a module.

    Attributes:
        digest: digest of its tables and its statements, ignoring comments, docstrings and layout.
        imports: (module, "") for `import module`, (module, name) for `from module import name`.
        named: strings that may name our modules, MODULE or MODULE:FUNCTION, as families are imported.
    """

    digest: bytes
    imports: tuple[tuple[str, str], ...]
    named: tuple[str, ...]


def _read(path: Path) -> _Module:
    tree = ast.parse(path.read_bytes())
    imports: list[tuple[str, str]] = []
    named: list[str] = []
    for node in _executed(tree):
        if isinstance(node, ast.Import):
            imports += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            imports += [(node.module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            named += [match[1] for match in [_NAMED.fullmatch(node.value)] if match]
    digest = hashlib.sha256(ast.dump(tree, annotate_fields=False).encode())
    for table in sorted(path.parent.glob("*.yaml")) if path.name == "__init__.py" else ():
        digest.update(table.read_bytes())
    return _Module(digest=digest.digest(), imports=tuple(imports), named=tuple(named))


class _Sources:
    """Our modules, each parsed once; `roots` maps a top-level package to its folder."""

    def __init__(self, roots: dict[str, Path]) -> None:
        self.roots = roots
        self._modules: dict[str, _Module] = {}

    def path(self, module: str) -> Path | None:
        top, *rest = module.split(".")
        base = os.path.join(self.roots[top], *rest)
        found = [path for path in (f"{base}/__init__.py", f"{base}.py") if os.path.isfile(path)]
        return Path(found[0]) if found else None

    def module(self, name: str) -> _Module:
        """Parse a module, or return the earlier result; ValueError if it does not exist."""
        if name not in self._modules:
            path = self.path(name)
            if path is None:
                raise ValueError(f"no module {name} below {self.roots}")
            self._modules[name] = _read(path)
        return self._modules[name]

    def resolve(self, module: str, name: str) -> list[str]:
        """Return the modules that `from module import name` needs; `name` is "" for `import module`."""
        if not name:
            return [module]
        if self.path(f"{module}.{name}"):
            return [f"{module}.{name}"]
        path = self.path(module)
        if path and path.name == "__init__.py":
            origin = next((m for m, n in self.module(module).imports if n == name), None)
            if origin:
                return self.resolve(origin, name)
        return [module]


@functools.cache
def _sources(root: Path | None) -> _Sources:
    return _Sources(_folders(root))


def _folders(root: Path | None) -> dict[str, Path]:
    folders = {package.__name__: Path(package.__path__[0]) for package in PACKAGES}
    return {name: root / name if root else folder for name, folder in folders.items()}


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)


def _executed(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield a tree's nodes except those under `if TYPE_CHECKING:`, and remove its docstrings."""
    waiting: collections.deque[ast.AST] = collections.deque([tree])
    while waiting:
        node = waiting.popleft()
        body = getattr(node, "body", None)
        if isinstance(body, list):
            body[:] = [statement for statement in body if not _is_text(statement)]
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            waiting += node.orelse
        else:
            yield node
            waiting += ast.iter_child_nodes(node)
