"""The name of an artifact's file stands in the artifact's module and nowhere else in the packages."""

import ast
from pathlib import Path

from detection_core.artifacts import message_files, run_info
from tests.docs.artifact_schemas import files
from tests.support.cases import cases

ROOT = Path(__file__).parents[3]
PACKAGES = ("detection_core", "component_specs", "components", "pipeline")
NAMES = {
    *(file.name for file in files()),
    message_files.PIPELINE_CONFIG,
    message_files.LABEL_MAP,
    run_info.LOG_FILE,
    run_info.REPORT_FILE,
}


def literals(source: str) -> list[tuple[int, str]]:
    """(line, text) of each literal of a name; what a message (`what=`, `help=`) says is no path."""
    tree = ast.parse(source)
    keywords = [k for node in ast.walk(tree) if isinstance(node, ast.Call) for k in node.keywords]
    spoken = {id(keyword.value) for keyword in keywords if keyword.arg in ("what", "help")}
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in spoken
        and node.value.rpartition("/")[2] in NAMES
    ]


@cases(*PACKAGES)
def test_no_literal_of_a_file_s_name_outside_of_its_module(*, package):
    found = []
    for path in sorted((ROOT / package).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith("detection_core/artifacts/"):
            source = path.read_text(encoding="utf-8")
            if any(known in source for known in NAMES):
                found += [f"{name}:{line}: {text}" for line, text in literals(source)]
    assert found == []


def test_what_is_looked_for_is_found():
    assert literals('read(folder, "metrics.json")') == [(1, "metrics.json")]
    assert literals('f"{folder}/metrics.json"') == [(1, "/metrics.json")]
    assert literals('read(path, what="pipeline.config")') == [] == literals('"say metrics.json here"')
