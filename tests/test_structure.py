"""The tests mirror the tree, and the tree keeps to its size budget."""

import ast
import collections
import fnmatch
import functools
import re
import tomllib
from pathlib import Path

from tests.support.import_closure import ROOT, imported_files

PACKAGES = ("detection_core", "component_specs", "components", "pipeline")
FILE_BUDGET, FUNCTION_BUDGET = 400, 60
MAKER = "pipeline/api/detflow"

# Tested through another module, or asked through whole configs: test file to modules.
TESTED_IN = {
    "components/data_validator/test_run.py": (
        "detection_core/artifacts/data_findings detection_core/tasks/validate_data"
    ),
    "detection_core/config/messages/test_detectors.py": "sizes",
    "detection_core/config/test_check.py": "detection_core/allowed_values detection_core/detectors/rules",
    "detection_core/families/ssd/test_checkpoint_names.py": "detection_core/detectors/checkpoint_names",
    "detection_core/quantization/test_aware.py": "detection_core/detectors/quantization",
    "detection_core/families/ssd/test_check.py": (
        "detection_core/config/messages/anchors"
        " detection_core/config/messages/detector_parts detection_core/config/messages/extractors"
    ),
    "detection_core/config/messages/test_training.py": "fine_tuning training_input",
    "detection_core/datasets/test_survey.py": "detection_core/artifacts/box_profile",
    "detection_core/evaluation/test_runner.py": "detection_core/optional/ensembles/ensemble_runner",
    "detection_core/tasks/test_train.py": "detection_core/tasks/fitting/fit",
    "pipeline/api/detflow/object_detector/test_data_loader.py": "mediapipe_data",
    "pipeline/api/detflow/object_detector/test_efficientdet_detector.py": "library_calls",
    "pipeline/cli/test_bench.py": "inspect",
    "pipeline/cli/test_cluster.py": "doctor schedule",
    "pipeline/cli/test_config.py": "zoo",
    "pipeline/kubeflow/test_kfp_backend.py": "pipeline/settings/step_ids",
    "pipeline/settings/test_settings_file.py": "schedule_settings",
}
# These read no config: builders, config and the families turn its fields into typed options.
_ONLY = ["artifacts", "augment", "data", "evaluation", "exporters", "optimizers", "quantization", "training"]
HAND_A_CONFIG_ON = ("api.py", *(f"{folder}/*.py" for folder in [*_ONLY, "tasks", "tasks/*"]))
CONFIG_SECTIONS = {"train_config", "train_input_reader", "eval_config", "eval_input_reader"}
CONFIG_SECTIONS |= {"graph_rewriter", "model"}
# Entry points of three lines, and protocols without behaviour.
WITHOUT_TEST = (
    "components/*/__main__.py",
    "detection_core/detectors/base.py",
    "detection_core/parts/backbones/base.py",
    "pipeline/cli/__main__.py",
)
# Names that stand in several folders: the names, the folders, why.
BUILDERS, MESSAGES = "detection_core/builders", "detection_core/config/messages"
ARTIFACTS, REPORT = "detection_core/artifacts", "detection_core/report"
CONFIG, DETECTORS = "detection_core/config", "detection_core/detectors"
EVALUATION, EXPORTERS = "detection_core/evaluation", "detection_core/exporters"
PARTS, TASKS = "detection_core/parts", "detection_core/tasks"
SSD, EFFICIENTDET = "detection_core/families/ssd", "detection_core/families/efficientdet"
CENTER_NET, FASTER_RCNN = "detection_core/families/center_net", "detection_core/families/faster_rcnn"
_ALL = (SSD, EFFICIENTDET, CENTER_NET, FASTER_RCNN)
SAME_NAME = (
    ("detector_parts", (BUILDERS, MESSAGES), "what a family of messages may hold, and what is built of it"),
    ("evaluation", (ARTIFACTS, REPORT), "a step's file, and the part of a page that shows it"),
    ("evaluation", (ARTIFACTS, MESSAGES), "a step's file, and the messages that say what is measured"),
    ("parity", (ARTIFACTS, f"{TASKS}/exporting"), "a step's file, and what a task makes it with"),
    ("pictures", (ARTIFACTS, EVALUATION), "a step's file, and what draws the pictures in it"),
    ("detector", (ARTIFACTS, BUILDERS), "the detector in a folder, and the one in memory"),
    ("quantization", (ARTIFACTS, DETECTORS), "a step's file, and what a family is asked for"),
    ("family", (DETECTORS, *_ALL), "the record of any family, and each one's own"),
    ("build check checkpoint_names model network", _ALL, "the same of each family"),
    ("tflite", (SSD, EFFICIENTDET, CENTER_NET), "the same of families with files for TensorFlow Lite"),
    ("check", (CONFIG,), "the check of a whole config, and of a family's message"),
    ("extractors", (MESSAGES, SSD, CENTER_NET, FASTER_RCNN), "names for any family, and a family's own"),
    ("anchors", (EFFICIENTDET, FASTER_RCNN, SSD, MESSAGES), "a family's own, and messages that all share"),
    ("losses", (EFFICIENTDET, CENTER_NET, FASTER_RCNN, PARTS), "a family's own beside those that all share"),
    ("targets", (CENTER_NET, PARTS), "a family's own targets beside those that families share"),
    ("backbones", (BUILDERS, CENTER_NET), "a family's own, and the builders of those that families share"),
    ("heads", (BUILDERS, PARTS), "a kind of part, and the builder of it"),
    ("checkpoint_names", (DETECTORS,), "how a format names variables, and a family's names"),
    ("tflite", (SSD, EXPORTERS), "what SSD puts into a TensorFlow Lite file, and its conversion"),
    ("fine_tuning", ("detection_core/zoo", MESSAGES), "the recipe to train on, and its messages"),
    ("cluster", ("pipeline/cli", "pipeline/doctor"), "the verb, and the checks of `doctor`"),
    ("config quantization", (MAKER,), "modules by the names that Model Maker gives them"),
    ("config", ("pipeline/cli",), "the verb, and the module of Model Maker's name"),
)
# Names that the layout gives every component, command or protocol.
BY_LAYOUT = ("__main__.py", "base.py", "run.py")

# Parts of a detector that cite no paper, and why.
WITHOUT_PAPER = {f"{PARTS}/backbones/base.py": "what backbones return"}
CITING = ("anchors", "backbones", "box_coders", "heads", "losses", "matchers", "necks", "samplers", "targets")


# Code outside of the families that names one, and why.
FAMILY_NAMES = re.compile(r"(?<![a-z])(ssd|efficientdet)(?![a-z])")
NAMES_OF_OTHERS = re.compile(r"(?i)(ssd|efficientdet) pb2|ssd anchor\w*|ssd (random )?crop\w*|https://\S*")
NAMES_A_FAMILY = {
    "detection_core/detectors/family.py": "the table of families",
    "detection_core/builders/detector_parts.py": "anchors that the schema names after SSD",
    "detection_core/config/automl/*.py": "the hyper-parameters of google/automl, a format of one family",
    "detection_core/config/legacy/*.py": "names of TensorFlow 1, also of families that are not built here",
    "detection_core/config/messages/*.py": "messages that suggest a family, and readers of a message",
    "detection_core/config/paths/short_names.py": "short names of fields",
    "detection_core/tasks/serving_driver.py": "google/automl's ServingDriver",
    "detection_core/zoo/fine_tuning.py": "the recipe for the model zoo, and titles of papers",
    "pipeline/api/detflow/*.py": "Model Maker's names",
    "pipeline/cli/*.py": "examples in the help",
    "pipeline/init/training_choice.py": "titles of papers",
}


@functools.cache
def _modules():
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    own = (path for path in paths if path.name != "__init__.py" and not path.name.endswith("_pb2.py"))
    return tuple(path.relative_to(ROOT) for path in own)


@functools.cache
def _tree(module):
    return ast.parse((ROOT / module).read_text(encoding="utf-8"))


def _tested_elsewhere():
    for test, names in TESTED_IN.items():
        assert (ROOT / "tests" / test).is_file(), test
        for name in names.split():
            yield f"{name}.py" if "/" in name else f"{test.rpartition('/')[0]}/{name}.py"


def test_every_module_has_a_test_file_at_the_same_place():
    untested = []
    for module in _modules():
        folder = ROOT / "tests" / module.parent
        own, whole = folder / f"test_{module.name}", folder.with_name(f"test_{folder.name}.py")
        beside = {*folder.glob("test_*.py"), *filter(Path.is_file, [whole])}
        tested = {own, whole} & beside or any(ROOT / module in imported_files(test) for test in beside)
        if not tested and not any(map(module.match, WITHOUT_TEST)):
            untested.append(module.as_posix())
    assert sorted(untested) == sorted(_tested_elsewhere()), "import it in a test beside it"


def test_every_module_keeps_to_the_budget():
    over = []
    for module in _modules():
        sizes = {"": (ROOT / module).read_text(encoding="utf-8").count("\n")} | {
            f":{f.lineno} {f.name}": f.end_lineno - f.lineno + 1
            for f in ast.walk(_tree(module))
            if isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        over += [
            f"{module}{place}: {size} lines"
            for place, size in sizes.items()
            if size > (FUNCTION_BUDGET if place else FILE_BUDGET)
        ]
    assert over == [], f"at most {FILE_BUDGET} lines a file, {FUNCTION_BUDGET} a function"


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
        for read in _read_of_a_config(_tree(path.relative_to(ROOT)))
    ]
    assert found == [], "hand the config whole to a function of detection_core/builders"
    # A read of a config is seen.
    for code in (
        "config.train_config.batch_size",
        "source.config.model",
        "def f(): return g(request.config.eval_config)",
        "config.eval_input_reader[0]",
    ):
        assert len(list(_read_of_a_config(ast.parse(code)))) == 1, code
    assert not list(_read_of_a_config(ast.parse("x.config, detector.model")))


def _collisions(modules):
    """Return name to modules of that name, without those that share it on purpose."""
    on_purpose = collections.defaultdict(set)
    for names, folders, _ in SAME_NAME:
        for name in names.split():
            on_purpose[f"{name}.py"].update(folders)
    by_name = collections.defaultdict(list)
    for module in modules:
        if module.name not in BY_LAYOUT:
            by_name[module.name].append(module)
    return {
        name: [module.as_posix() for module in found]
        for name, found in by_name.items()
        if len(found) > 1 and {module.parent.as_posix() for module in found} - on_purpose[name]
    }


def _family_names(tree):
    """Find names and texts in code that contain the name of a family; docstrings may."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        texts = [getattr(node, field, None) for field in ("id", "attr", "name", "module", "arg")]
        if isinstance(node, ast.Constant) and id(node) not in prose:
            texts.append(node.value)
        for text in texts:
            if isinstance(text, str):
                words = NAMES_OF_OTHERS.sub("", text.replace("_", " "))
                if FAMILY_NAMES.search(words.lower()):
                    yield text


def test_only_families_and_listed_modules_name_a_family():
    found = {
        module.as_posix(): names
        for module in _modules()
        if "families" not in module.parts
        if (names := sorted(set(_family_names(_tree(module)))))
    }
    listed = {pattern: fnmatch.filter(found, pattern) for pattern in NAMES_A_FAMILY}
    unlisted = sorted(set(found).difference(*listed.values()))
    assert unlisted == [], "move it into detection_core/families/NAME, or ask the family's record"
    assert [pattern for pattern, paths in listed.items() if not paths] == []
    # A name of a family is seen.
    for code in ("config.model.ssd", "f('model.ssd.loss')", "def is_efficientdet(): pass", "Ssd()"):
        assert list(_family_names(ast.parse(code))), code
    for code in ("f('ssd_anchor_generator')", "'Of SSD.'", "_passed"):
        assert not list(_family_names(ast.parse(code))), code


def test_no_two_modules_have_one_name_without_a_reason_and_every_reason_is_in_use():
    assert _collisions(_modules()) == {}
    for added in (
        ["pipeline/local/records.py", "pipeline/report/records.py"],
        ["detection_core/builders/heads.py", "detection_core/ops/heads.py"],
        ["pipeline/cli/verbs.py", "pipeline/kubeflow/verbs.py"],
    ):
        assert _collisions(map(Path, added)) == {Path(added[0]).name: added}
    modules = {module.as_posix() for module in _modules()}
    stated = ((f"{folder}/{name}.py" for folder in fs for name in n.split()) for n, fs, _ in SAME_NAME)
    assert {place for places in stated for place in places} - modules == set()


def test_every_generated_file_names_no_download_host():
    names = ("requirements.lock", "pyproject.toml", "Makefile", ".ci/run", ".ci/setup")
    for name in names:
        text = (ROOT / name).read_text(encoding="utf-8")
        assert "://" not in text, f"{name} names a host"


def test_a_wheel_holds_every_file_of_the_packages():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]
    left_out, of_no_package = [], ROOT / "pipeline" / "api" / "README.md"
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*"):
            if path.is_dir() or path.suffix in (".py", ".pyc") or path == of_no_package:
                continue
            names = (path.name, path.relative_to(ROOT / package).as_posix())
            expected = [*patterns["*"], *patterns.get(package, ())]
            if not any(fnmatch.fnmatch(name, pattern) for name in names for pattern in expected):
                left_out.append(str(path.relative_to(ROOT)))
    assert left_out == []


def test_every_part_cites_its_paper():
    uncited = set()
    for kind in CITING:
        whole = ROOT / PARTS / f"{kind}.py"
        for path in [whole] if whole.is_file() else (ROOT / PARTS / kind).glob("[!_]*.py"):
            tree = _tree(path.relative_to(ROOT))
            documented = [
                n for n in ast.walk(tree) if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef)
            ]
            if not any("https://" in (ast.get_docstring(node) or "") for node in documented):
                uncited.add(str(path.relative_to(ROOT)))
    assert uncited == set(WITHOUT_PAPER)
