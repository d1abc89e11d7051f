import importlib
import tomllib
from pathlib import Path

import pytest
from setuptools import find_namespace_packages

import detflow
from tests.support.command_line import run_python

ROOT = Path(__file__).parents[4]


def modules_after(code):
    code = f"import sys; before = set(sys.modules)\n{code}\nprint(*sorted(set(sys.modules) - before))"
    return set(run_python(code).stdout.split())


def test_imports_cost_nothing_and_those_of_the_tutorial_need_no_tensorflow():
    added = modules_after("import detflow")
    assert not {"detection_core", "tensorflow", "numpy", "google", "yaml", "dataclasses"} & added
    assert {name for name in added if name.startswith("detflow")} == {"detflow"}
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


def test_every_name_of_the_reference_is_there_and_in_the_wheel():
    assert set(detflow.__all__) <= set(dir(detflow))
    for name in detflow.__all__:
        module = getattr(detflow, name)
        assert module is importlib.import_module(f"detflow.{name}")
        assert all(hasattr(module, public) for public in module.__all__)
    with pytest.raises(AttributeError, match="no attribute 'image_classifier'"):
        detflow.image_classifier  # noqa: B018
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    find = settings["tool"]["setuptools"]["packages"]["find"]
    chosen = find["exclude"], find["include"]
    found = [name for where in find["where"] for name in find_namespace_packages(ROOT / where, *chosen)]
    assert {"detflow", "detflow.object_detector"} <= set(found)
    assert not [name for name in found if name.startswith("pipeline.api")]
    assert (ROOT / "pipeline" / "api" / "detflow" / "py.typed").is_file()
