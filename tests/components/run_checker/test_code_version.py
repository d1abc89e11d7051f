"""What makes a step run again: a change in the code that it executes, and in no other."""

import importlib.metadata
import shutil

import pytest

from component_specs.kfp_outputs import CODE_VERSIONS
from components.run_checker.code_version import (
    PACKAGES,
    code_version,
    component_version,
    import_closure,
    package_versions,
)
from detection_core.storage.files import write_text
from tests.support.cases import cases

STEPS = tuple(CODE_VERSIONS)
CONFIG_STEPS = ("config_gen", "evaluator", "data_validator")
MODEL_STEPS = ("trainer", "quantization_rewriter", "tflite_exporter")


@pytest.fixture(scope="module")
def closures():
    return {step: import_closure(f"components.{step}.run")[0] for step in STEPS}


@cases(
    ("components.evaluator.run", {"evaluator"}),
    ("component_specs.evaluator", {"evaluator"}),
    ("detection_core.evaluation.curves", {"evaluator"}),
    # Trainings that are validated keep the weights that measure best.
    ("detection_core.evaluation.coco_metrics", {"evaluator", *MODEL_STEPS}),
    ("detection_core.tasks.train", {"trainer"}),
    # ConfigGen and Evaluator read a config, for which the record of SSD is imported by name; DataValidator
    # asks it for anchors.
    ("detection_core.detectors.parts.losses.focal", {*MODEL_STEPS, *CONFIG_STEPS}),
    ("detection_core.datasets.formats.coco", {"example_gen"}),
    ("components.runtime.kfp.views", set()),
    ("detection_core.errors", set(STEPS)),
    ("detection_core", set(STEPS)),
)
def test_only_the_steps_that_import_a_module_change_with_it(closures, *, module, steps):
    assert {step for step in STEPS if module in closures[step]} == steps


@pytest.fixture
def checkout(tmp_path):
    """The sources of the packages in another place, to be changed."""
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(package.__path__[0], tmp_path / package.__name__, ignore=ignored)
    return tmp_path


def test_statements_count_but_no_place_comment_docstring_or_layout(checkout, tmp_path_factory):
    path = checkout / "components" / "baseline_resolver" / "run.py"
    path.write_text(f'{path.read_text()}\n\n\n# A remark.\n"""And a text."""\n')
    assert component_version("baseline_resolver", checkout) == component_version("baseline_resolver")
    changed = tmp_path_factory.mktemp("changed") / "root"
    shutil.copytree(checkout, changed)
    deep = changed / "detection_core" / "storage" / "s3.py"
    deep.write_text(f"{deep.read_text()}\nCHANGED = 1\n")
    assert component_version("baseline_resolver", changed) != component_version("baseline_resolver")


def test_an_image_is_named_by_all_that_is_in_it_and_another_tensorflow_is_other_code(monkeypatch):
    assert len(code_version()) == 16 and code_version() not in {component_version(c) for c in STEPS}
    before = component_version("trainer")
    known = importlib.metadata.version
    other = lambda name: "9.9" if name == "tensorflow" else known(name)  # noqa: E731
    monkeypatch.setattr(importlib.metadata, "version", other)
    component_version.cache_clear()
    assert component_version("trainer") != before
    component_version.cache_clear()


def test_a_package_counts_where_it_is_imported():
    trainer, evaluator = (import_closure(f"components.{c}.run")[1] for c in ("trainer", "evaluator"))
    trained_with, evaluated_with = package_versions(trainer), package_versions(evaluator)
    assert {"tensorflow", "tf_keras", "numpy", "protobuf"} <= set(trained_with)
    assert "ai-edge-litert" in evaluated_with and "ai-edge-litert" not in trained_with
    assert "apache-beam" in package_versions(import_closure("components.example_gen.run")[1])
    # A name that several packages share is told apart; the standard library and what is not installed is not.
    found = package_versions(["google.protobuf", "json", "there_is_no_such_module"])
    assert found == {"protobuf": importlib.metadata.version("protobuf")}


def test_imports_in_functions_count_those_for_types_do_not(tmp_path):
    run = """from typing import TYPE_CHECKING
from component_specs import Job
if TYPE_CHECKING:
    from detection_core import typed
    import pandas
else:
    import scipy
def run(job):
    from detection_core import deep
    import tensorflow as tf
"""
    exports = "from component_specs.some import Job\nfrom component_specs.other import X\n"
    for name, text in {
        **{f"{name}/__init__.py": "" for name in ("detection_core", "components", "components/some")},
        "component_specs/__init__.py": exports,
        "component_specs/some.py": "class Job: pass\n",
        "component_specs/other.py": "X = 1\n",
        "detection_core/deep.py": "import numpy.linalg\n",
        "detection_core/typed.py": "",
        "components/some/run.py": run,
    }.items():
        write_text(str(tmp_path / name), text)
    own, foreign = import_closure("components.some.run", tmp_path)
    packages = {"component_specs", "components", "components.some", "detection_core"}
    assert own == packages | {"component_specs.some", "components.some.run", "detection_core.deep"}
    assert foreign == {"typing", "scipy", "numpy.linalg", "tensorflow"}
