"""What the import costs, and that a script of Model Maker's finds its names."""

import importlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from setuptools import find_namespace_packages

import detflow

ROOT = Path(__file__).parents[4]


def modules_after(code: str) -> set[str]:
    code = f"import sys; before = set(sys.modules)\n{code}\nprint(*sorted(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120, env=os.environ
    )
    return set(done.stdout.split())


def test_the_import_costs_nothing():
    added = modules_after("import detflow")
    assert not {"detection_core", "tensorflow", "numpy", "google", "yaml", "dataclasses"} & added
    assert {name for name in added if name.startswith("detflow")} == {"detflow"}


def test_the_tutorial_s_imports_need_no_tensorflow():
    added = modules_after(
        "from detflow import model_spec, object_detector\n"
        "from detflow.config import ExportFormat, QuantizationConfig\n"
        "spec = model_spec.get('efficientdet_lite0')"
    )
    assert not {"tensorflow", "apache_beam", "tf_keras", "tfx"} & added


def test_any_module_may_be_imported_first():
    """Scripts import `config` first, or `object_detector` alone: each is imported in a process of its own."""
    code = """
import os
for name in {names}:
    child = os.fork()
    if child == 0:
        exec(f"from detflow.{{name}} import *")
        os._exit(0 if f"detflow.{{name}}" in sys.modules else 1)
    assert os.waitpid(child, 0)[1] == 0, name
"""
    modules_after(code.format(names=list(detflow.__all__)))


def test_every_name_of_the_reference_is_there():
    assert set(detflow.__all__) <= set(dir(detflow))
    for name in detflow.__all__:
        module = getattr(detflow, name)
        assert module is importlib.import_module(f"detflow.{name}")
        assert all(hasattr(module, public) for public in module.__all__)
    with pytest.raises(AttributeError, match="no attribute 'image_classifier'"):
        detflow.image_classifier  # noqa: B018


def test_the_package_is_in_the_wheel():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    find = settings["tool"]["setuptools"]["packages"]["find"]
    found = [
        name
        for where in find["where"]
        for name in find_namespace_packages(ROOT / where, find["exclude"], find["include"])
    ]
    assert {"detflow", "detflow.object_detector"} <= set(found)
    assert not [name for name in found if name.startswith("pipeline.api")]
    assert (ROOT / "pipeline" / "api" / "detflow" / "py.typed").is_file()
