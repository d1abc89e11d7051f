import json
import re
import tomllib
from pathlib import Path

import pytest

from detection_core.errors import ConfigError
from pipeline.extras import EXTRAS, require
from tests.support.cases import refused
from tests.support.command_line import run_python
from tests.support.lock_files import read_lock

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

BESIDE = ("mlflow", "onnx", "wandb")
"""Extras that are in a separate environment here: `make test-trackers` and `make test-runtimes`."""


def test_the_extras_are_those_of_the_distribution_and_what_is_missing_is_one_message(monkeypatch):
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    extras = set(PROJECT["optional-dependencies"]) - {"dev"}
    assert set(EXTRAS) == extras == set(re.findall(r"`\[(\w+)\]`", page))
    assert not [d for d in PROJECT["dependencies"] if d.startswith(("tfx", "kfp", "ml-metadata", "dill"))]
    pins = read_lock((ROOT / "requirements.lock").read_text(encoding="utf-8"))
    assert f"setuptools=={pins['setuptools']} wheel=={pins['wheel']}\n" in page
    assert f"detflow-{PROJECT['version']}-py3-none-any.whl" in page
    for extra in EXTRAS:
        if extra not in BESIDE:
            require(extra, "this")
    monkeypatch.setattr("pipeline.extras.importlib.util.find_spec", lambda name: None)
    for extra in EXTRAS:
        message = rf"this: expected the packages of detflow\[{extra}\].*{re.escape(EXTRAS[extra].remedy)}"
        refused(ConfigError, message, require, extra, "this")


@pytest.mark.slow
def test_all_but_a_run_here_works_without_tfx(tmp_path):
    """Every module but the three that are TFX's side of the project can be imported where there is no TFX."""
    folders = ("component_specs", "components", "pipeline")  # the core's rules forbid it TFX already
    paths = [p.relative_to(ROOT) for folder in folders for p in sorted((ROOT / folder).rglob("*.py"))]
    names = [".".join(p.with_suffix("").parts) for p in paths if not p.name.startswith("__")]
    modules = [name.removeprefix("pipeline.api.") for name in names]
    program = f"""
import importlib, json, sys
from importlib.abc import MetaPathFinder
class Without(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tfx", "ml_metadata", "tfx_bsl", "tensorflow_data_validation", "kfp"):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Without())
failed = []
for name in {json.dumps(modules)}:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as e:
        failed.append([name, e.name])
print(json.dumps(failed))
"""
    failed = json.loads(run_python(program, cwd=ROOT).stdout.splitlines()[-1])
    assert {name for name, _ in failed} == {
        "component_specs.kfp_yaml",
        "component_specs.tfx_spec",
        "components.runtime.tfx",
        "pipeline.local.tfx_backend",
    }
