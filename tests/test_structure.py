"""The tests mirror the tree, and the tree keeps to its size budget."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("detection_core", "component_specs", "components", "pipeline")
FILE_BUDGET, FUNCTION_BUDGET = 400, 60

# Why a module has no test file of its own.
WITHOUT_MIRROR = {
    "__main__.py": "three lines, run by the container tests",
    "base.py": "a protocol without behaviour, exercised by its implementations",
}


def _modules():
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.name != "__init__.py" and not path.name.endswith("_pb2.py"):
                yield path.relative_to(ROOT)


def _functions(tree):
    return (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("module", _modules(), ids=str)
def test_a_module_has_a_test_file_at_the_same_place(module):
    if module.name in WITHOUT_MIRROR:
        return
    folder = ROOT / "tests" / module.parent
    beside = [folder / f"test_{module.name}", folder.with_name(f"test_{folder.name}.py")]
    assert any(path.is_file() for path in beside), f"no test file for {module}: expected {beside[0]}"


@pytest.mark.parametrize("module", _modules(), ids=str)
def test_a_module_keeps_to_the_budget(module):
    text = (ROOT / module).read_text(encoding="utf-8")
    assert text.count("\n") <= FILE_BUDGET
    long = [f.name for f in _functions(ast.parse(text)) if f.end_lineno - f.lineno + 1 > FUNCTION_BUDGET]
    assert not long, f"functions of more than {FUNCTION_BUDGET} lines"


def test_every_generated_file_names_no_download_host():
    names = ("requirements.lock", "pyproject.toml", "Makefile", ".ci/run", ".ci/setup")
    for name in names:
        text = (ROOT / name).read_text(encoding="utf-8")
        assert "://" not in text, f"{name} names a host"
