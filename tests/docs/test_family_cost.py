"""The table in CONTRIBUTING.md of what the families cost outside their folders agrees with the source.

A file of the packages costs a family if it names the family, or if only the family's folder imports it.
"""

import ast
import functools
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("detection_core", "component_specs", "components", "pipeline")
FAMILIES = ROOT / "detection_core" / "families"
MOST_FILES = 15
# The box coder of Faster R-CNN is that of SSD.
NAMES = {
    "center_net": re.compile(r"center_?net", re.IGNORECASE),
    "faster_rcnn": re.compile(r"(?:faster|mask)_?(?:r_?)?cnn(?!_?box_?coder)", re.IGNORECASE),
}


@functools.cache
def _sources():
    """Path below the root -> text, of all modules and tables but generated ones."""
    paths = [p for package in PACKAGES for p in (ROOT / package).rglob("*") if p.suffix in (".py", ".yaml")]
    return {path.relative_to(ROOT): path.read_text("utf-8") for path in paths if "_pb2" not in path.name}


def _family(path):
    parts = path.parts
    return parts[2] if parts[:2] == ("detection_core", "families") and len(parts) > 3 else ""


@functools.cache
def _importers():
    """Module -> families that import it; "" stands for all other code."""
    found = {}
    for path, text in _sources().items():
        for node in ast.walk(ast.parse(text if path.suffix == ".py" else "")):
            names = (
                [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                if isinstance(node, ast.ImportFrom) and node.module
                else [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else []
            )
            for name in names:
                found.setdefault(name, set()).add(_family(path))
    return found


def _outside(family):
    named = {path for path, text in _sources().items() if NAMES[family].search(text)}
    alone = {
        path for path in _sources() if _importers().get(".".join(path.with_suffix("").parts)) == {family}
    }
    return {path for path in named | alone if path.parts[:2] != ("detection_core", "families")}


def test_the_table_of_costs_is_that_of_the_source():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| \d+ files, [\d,]+ lines \| (.+) \|$", page, re.MULTILINE))
    for family in NAMES:
        found = sorted(str(path).removeprefix("detection_core/") for path in _outside(family))
        assert rows[family] == f"{len(found)}: " + ", ".join(f"`{path}`" for path in found)
    assert len(set().union(*map(_outside, NAMES))) <= MOST_FILES
