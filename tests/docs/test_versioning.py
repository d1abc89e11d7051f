import ast
import importlib
import pkgutil
import re
from pathlib import Path

from detection_core import artifacts
from detection_core.artifacts.json_file import JsonFile
from tests.support.cases import cases

ROOT = Path(__file__).parents[2]
PACKAGES = ("detection_core", "component_specs", "components", "pipeline")
OF_OTHERS = {"pipeline.kubeflow.package_file.SCHEMA_VERSION"}  # the package's, seen from its reader
_CONSTANT = re.compile(r"([A-Z]+_)*(FORMAT_VERSION|SCHEMA_VERSION|CHECKPOINT_FORMAT)")


def _rows():
    text = (ROOT / "docs" / "versioning.md").read_text(encoding="utf-8")
    return re.findall(r"^\| .*? \| (\S+) \| `([\w.]+)` \|$", text, re.MULTILINE)


def _json_files():
    """Every JSON file that is an artifact, or in one."""
    for module in pkgutil.walk_packages(artifacts.__path__, f"{artifacts.__name__}."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, JsonFile) and name.isupper():
                yield f"{module.name}.{name}"


def _constants():
    """Every constant that says the version of something written."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                names = [t.id for t in getattr(node, "targets", ()) if isinstance(t, ast.Name)]
                if any(_CONSTANT.fullmatch(name) for name in names):
                    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                    yield from (f"{module}.{name}" for name in names)


@cases(*_rows())
def test_a_version_is_that_of_the_code(*, version, constant):
    module, _, name = constant.rpartition(".")
    value = getattr(importlib.import_module(module), name)
    assert str(value.version if isinstance(value, JsonFile) else value) == version


def test_no_version_is_missing():
    listed = [constant for _, constant in _rows()]
    assert len(set(listed)) == len(listed)
    assert {*_constants(), *_json_files()} - set(listed) == OF_OTHERS
