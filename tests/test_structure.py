"""The tests mirror the tree, and the tree keeps to its size budget."""

from __future__ import annotations

import ast
import collections
import fnmatch
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("detection_core", "component_specs", "components", "pipeline")
FILE_BUDGET, FUNCTION_BUDGET = 400, 60

# Modules without behaviour of their own, or tested through the one that they serve: module to its test file.
TESTED_IN = {
    "detection_core/artifacts/message_files.py": "detection_core/config/test_input_paths.py",
    "detection_core/artifacts/box_profile.py": "detection_core/datasets/test_box_counter.py",
    "detection_core/artifacts/dataset_card.py": "detection_core/datasets/test_card.py",
    "detection_core/artifacts/data_findings.py": "components/data_validator/test_run.py",
    "detection_core/artifacts/data_statistics.py": "detection_core/validation/test_box_statistics.py",
    "detection_core/artifacts/quarantine.py": "detection_core/datasets/test_quarantine.py",
    "detection_core/artifacts/model_run.py": "detection_core/artifacts/test_samples.py",
    "detection_core/artifacts/coco_names.py": "detection_core/evaluation/test_coco_metrics.py",
    "detection_core/evaluation/metric_sets.py": "components/evaluator/test_run.py",
    "detection_core/evaluation/results.py": "detection_core/evaluation/test_matching.py",
    "detection_core/detectors/parts/backbones/mobilenet.py": (
        "detection_core/detectors/parts/backbones/test_mobilenet_v1.py"
    ),
    "detection_core/detectors/parts/anchor_criterion.py": "detection_core/detectors/ssd/test_model.py",
    "detection_core/tasks/validate_data.py": "components/data_validator/test_run.py",
    "detection_core/tasks/evaluate.py": "components/evaluator/test_run.py",
    "detection_core/tasks/export.py": "end_to_end/test_workflow.py",
    "detection_core/tasks/fitting.py": "detection_core/tasks/test_train.py",
    "detection_core/tasks/model_run.py": "detection_core/tasks/test_train.py",
    "pipeline/cli/compile.py": "pipeline/kubeflow/test_kfp_backend.py",
    "pipeline/kubeflow/run_state.py": "pipeline/kubeflow/test_runs.py",
    "pipeline/kubeflow/recurring_run.py": "pipeline/kubeflow/test_schedules.py",
    "pipeline/kubeflow/schedule_removal.py": "pipeline/kubeflow/test_schedules.py",
    "pipeline/doctor/custom_resources.py": "pipeline/doctor/test_cluster.py",
    "pipeline/doctor/rights.py": "pipeline/doctor/test_cluster.py",
    "pipeline/cli/group.py": "pipeline/cli/test_parser.py",
    "pipeline/cli/server.py": "pipeline/cli/test_cluster.py",
    "pipeline/cli/standalone.py": "end_to_end/test_standalone.py",
    "pipeline/cli/verbs.py": "pipeline/cli/test_parser.py",
    "pipeline/cli/workflow.py": "pipeline/cli/test_parser.py",
    "pipeline/settings/step_ids.py": "pipeline/kubeflow/test_kfp_backend.py",
    "pipeline/settings/workflow_settings.py": "pipeline/settings/test_settings_file.py",
}
# Of these nobody reads a config: builders, config and the families turn its fields into types of their own.
HAND_A_CONFIG_ON = (
    "api.py",
    "artifacts/*.py",
    "augment/*.py",
    "data/*.py",
    "evaluation/*.py",
    "exporters/*.py",
    "optimizers/*.py",
    "quantization/*.py",
    "tasks/*.py",
    "training/*.py",
)
CONFIG_SECTIONS = {
    "train_config",
    "train_input_reader",
    "eval_config",
    "eval_input_reader",
    "graph_rewriter",
    "model",
}
# Entry points of three lines, and protocols without behaviour.
WITHOUT_TEST = (
    "components/*/__main__.py",
    "detection_core/detectors/base.py",
    "detection_core/detectors/parts/backbones/base.py",
    "detection_core/detectors/parts/box_coders/base.py",
    "detection_core/detectors/parts/losses/base.py",
    "pipeline/cli/__main__.py",
)
# Folders whose modules are named after the modules that they belong to: the pair of names is on purpose.
NAMED_AFTER_OTHERS = {
    "detection_core/builders": "a family of configuration messages",
    "detection_core/config/messages": "a family of configuration messages",
    "detection_core/artifacts": "the artifact, by the name of what writes it",
    "detection_core/report": "the artifact that it shows",
    "detection_core/detectors/ssd": "what SSD has of a thing that every family has",
    "detection_core/detectors/ssd/checkpoint_names": "the part whose variables are named",
    "detection_core/ops": "the function of tensors that a part applies",
    "component_specs": "the component",
    "pipeline/cli": "the verb",
}
# Other pairs, each with its reason.
SAME_NAME = {
    "schedules.py": "Keras' learning-rate schedules, and the schedules of Kubeflow Pipelines",
}
# Names that the layout gives every component, command or protocol.
BY_LAYOUT = ("__main__.py", "base.py", "run.py")

# Parts of a detector that cite no paper, and why.
PARTS = "detection_core/detectors/parts"
WITHOUT_PAPER = {
    f"{PARTS}/anchors/base.py": "protocol and helpers of all generators",
    f"{PARTS}/backbones/base.py": "what backbones return",
    f"{PARTS}/box_coders/base.py": "protocol",
    f"{PARTS}/heads/predictions.py": "protocol and shapes of all heads",
    f"{PARTS}/losses/base.py": "protocols",
    f"{PARTS}/losses/masking.py": "masks of weights, no loss",
    f"{PARTS}/matchers/base.py": "base class of all matchers",
}
CITING = ("anchors", "backbones", "box_coders", "heads", "losses", "matchers", "necks", "samplers", "targets")


def _modules():
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.name != "__init__.py" and not path.name.endswith("_pb2.py"):
                yield path.relative_to(ROOT)


def _functions(tree):
    return (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("module", _modules(), ids=str)
def test_a_module_has_a_test_file_at_the_same_place(module):
    if any(module.match(pattern) for pattern in WITHOUT_TEST):
        return
    folder = ROOT / "tests" / module.parent
    beside = [folder / f"test_{module.name}", folder.with_name(f"test_{folder.name}.py")]
    if str(module) in TESTED_IN:
        beside.append(ROOT / "tests" / TESTED_IN[str(module)])
    assert any(path.is_file() for path in beside), f"no test file for {module}: expected {beside[0]}"


@pytest.mark.parametrize("module", _modules(), ids=str)
def test_a_module_keeps_to_the_budget(module):
    text = (ROOT / module).read_text(encoding="utf-8")
    assert text.count("\n") <= FILE_BUDGET
    long = [f.name for f in _functions(ast.parse(text)) if f.end_lineno - f.lineno + 1 > FUNCTION_BUDGET]
    assert not long, f"functions of more than {FUNCTION_BUDGET} lines"


def _read_of_a_config(tree):
    """Find reads of a config's sections; `model`, which much else has, only of what is called config."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in CONFIG_SECTIONS:
            owner = ast.unparse(node.value)
            if node.attr != "model" or owner.rpartition(".")[2].endswith("config"):
                yield f"{node.lineno}: {owner}.{node.attr}"


def test_configs_are_read_by_builders_only():
    core = ROOT / "detection_core"
    paths = [path for pattern in HAND_A_CONFIG_ON for path in sorted(core.glob(pattern))]
    assert len(paths) > 80
    found = [
        f"{path.relative_to(ROOT)}:{read}"
        for path in paths
        for read in _read_of_a_config(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found, "hand the config whole to a function of detection_core/builders"


@pytest.mark.parametrize(
    "code",
    [
        "config.train_config.batch_size",
        "source.config.model",
        "def f(): return g(request.config.eval_config)",
        "config.eval_input_reader[0]",
    ],
)
def test_a_read_of_a_config_is_seen(code):
    assert list(_read_of_a_config(ast.parse(code)))
    assert not list(_read_of_a_config(ast.parse("x.config, detector.model")))


def _collisions(modules):
    """Return name to modules of that name, without the pairs that are on purpose."""
    by_name = collections.defaultdict(list)
    for module in modules:
        if module.name not in (*BY_LAYOUT, *SAME_NAME) and module.parent.as_posix() not in NAMED_AFTER_OTHERS:
            by_name[module.name].append(module.as_posix())
    return {name: paths for name, paths in by_name.items() if len(paths) > 1}


def test_no_two_modules_have_one_name_without_a_reason():
    assert _collisions(_modules()) == {}


def test_a_collision_is_found():
    added = [Path("pipeline/local/records.py"), Path("pipeline/report/records.py")]
    assert set(_collisions(added)) == {"records.py"}


def test_every_reason_for_a_name_is_in_use():
    names = collections.Counter(module.name for module in _modules())
    assert [name for name in SAME_NAME if names[name] < 2] == []
    folders = {module.parent.as_posix() for module in _modules()}
    assert set(NAMED_AFTER_OTHERS) - folders == set()


def test_every_generated_file_names_no_download_host():
    names = ("requirements.lock", "pyproject.toml", "Makefile", ".ci/run", ".ci/setup")
    for name in names:
        text = (ROOT / name).read_text(encoding="utf-8")
        assert "://" not in text, f"{name} names a host"


def test_a_wheel_holds_every_file_of_the_packages():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]
    left_out = []
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*"):
            if path.is_dir() or path.suffix in (".py", ".pyc"):
                continue
            names = (path.name, path.relative_to(ROOT / package).as_posix())
            wanted = [*patterns["*"], *patterns.get(package, ())]
            if not any(fnmatch.fnmatch(name, pattern) for name in names for pattern in wanted):
                left_out.append(str(path.relative_to(ROOT)))
    assert left_out == []


@pytest.mark.parametrize("folder", CITING)
def test_a_part_cites_its_paper(folder):
    uncited = set()
    for path in (ROOT / PARTS / folder).glob("[!_]*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        documented = [n for n in ast.walk(tree) if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef)]
        if not any("https://" in (ast.get_docstring(node) or "") for node in documented):
            uncited.add(str(path.relative_to(ROOT)))
    assert uncited == {module for module in WITHOUT_PAPER if module.startswith(f"{PARTS}/{folder}/")}
