"""The recipes of CONTRIBUTING.md as files, so that the page is what the tests execute."""

import contextlib
import dataclasses
import importlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"
_SECTION = re.compile(r"^### (.+?)\n(.*?)(?=^##)", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"^`([\w.]+)`[^\n]*:\n\n```\w+\n(.*?)^```", re.DOTALL | re.MULTILINE)
_ROW = re.compile(r"^\| \[(.+?)\]\(#[\w-]+\) \| (\d+) \|", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A recipe, its files written to a folder from which they can be imported."""

    folder: Path
    files: dict[str, str]  # name to content

    def path(self, name: str) -> str:
        """Return where a file is."""
        return str(self.folder / name)

    def load(self, name: str) -> ModuleType:
        """Import a module of the recipe."""
        return importlib.import_module(name)


def files_of(title: str) -> dict[str, str]:
    """Return the files of a recipe: below its heading of the third level, up to the next heading."""
    sections = _SECTION.findall(PAGE.read_text(encoding="utf-8"))
    return dict(_FILE.findall({heading.lower(): text for heading, text in sections}[title]))


def counts() -> dict[str, int]:
    """Return how many files of one's own the table says that each recipe takes."""
    return {title: int(count) for title, count in _ROW.findall(PAGE.read_text(encoding="utf-8"))}


@contextlib.contextmanager
def recipe(title: str, folder: Path) -> Iterator[Recipe]:
    """Write a recipe's files to a folder and let them be imported while the caller needs them."""
    files = files_of(title)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    modules = [Path(name).stem for name in files if name.endswith(".py")]
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield Recipe(folder, files)
    finally:
        sys.path.remove(str(folder))
        for module in modules:
            sys.modules.pop(module, None)


@contextlib.contextmanager
def registered(title: str, folder: Path, module: str, *forget: Callable[[], None]) -> Iterator[Recipe]:
    """Write a recipe's files and register their part; then call what takes it back."""
    with recipe(title, folder) as found:
        found.load(module).register()
        try:
            yield found
        finally:
            for take_back in forget:
                take_back()
