import ast
import subprocess
from pathlib import Path

import pytest

from tests.mutants.__main__ import candidates, choose
from tests.mutants.judge import Judge, rounds_for
from tests.mutants.operators import mutants_of
from tests.support.import_closure import ROOT

SOURCE = '''"""No fault in a text."""
def kept(values: list[int], low=1):
    if not values or low < 2:
        raise ValueError(f"of {low + 1}")
    values.sort()
    return max(low, len(values)) - 1 if values else low
'''
EXPECTED = """\
2 constant: 1 -> 2
3 boolean: not values or low < 2 -> (not values and low < 2)
3 negation: not values -> values
3 comparison: low < 2 -> (low <= 2)
3 constant: 2 -> 3
4 statement: raise ValueError(f"of {low + 1}") -> pass
5 statement: values.sort() -> pass
6 condition: values -> (not values)
6 operator: max(low, len(values)) - 1 -> (max(low, len(values)) + 1)
6 arguments: max(low, len(values)) -> max(len(values), low)
6 constant: 1 -> 2
"""


def test_every_kind_of_fault_is_put_where_it_runs(tmp_path: Path) -> None:
    (tmp_path / "source.py").write_text(SOURCE)
    mutants = mutants_of(tmp_path, "source.py")
    assert [str(mutant).removeprefix("source.py:") for mutant in mutants] == EXPECTED.splitlines()
    changed = [mutant.apply(SOURCE.encode()).decode() for mutant in mutants]
    assert len({ast.dump(ast.parse(text)) for text in (SOURCE, *changed)}) == 1 + len(mutants)


def test_the_same_seed_draws_the_same_mutants_of_every_kind() -> None:
    files = [file for file in candidates() if file.startswith("detection_core/ops/")]
    drawn = choose(files, 40, seed=3)
    assert drawn == choose(files, 40, seed=3) != choose(files, 40, seed=4)
    assert len({mutant.kind for mutant in drawn}) == 8


def test_the_mirror_is_asked_first() -> None:
    test_files = sorted((ROOT / "tests" / "detection_core" / "ops").glob("test_*.py"))
    near, far = rounds_for("detection_core/ops/boxes.py", test_files)
    assert near[0] == "tests/detection_core/ops/test_boxes.py" and not set(near) & set(far)
    assert "tests/detection_core/ops/test_iou.py" in near + far


def test_a_mutant_dies_by_the_test_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    root = tmp_path / "checkout"
    (root / "tests").mkdir(parents=True)
    (root / "source.py").write_text("def bound(value):\n    return value < 3\n")
    tests = "from source import bound\n\n\ndef test_bound():\n    assert bound(2) and not bound(VALUE)\n"
    (root / "tests" / "test_sharp.py").write_text(tests.replace("VALUE", "3"))
    (root / "tests" / "test_blunt.py").write_text(tests.replace("VALUE", "9"))
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    judge = Judge(tmp_path / "copy", seconds=60, root=root, modules=())
    [mutant] = [m for m in mutants_of(root, "source.py") if m.kind == "comparison"]
    assert judge(mutant, [["tests/test_sharp.py"]]).killed_by == "tests/test_sharp.py::test_bound"
    verdict = judge(mutant, [["tests/test_blunt.py"], []])
    assert (verdict.killed_by, verdict.complete) == ("", True)
    assert judge.failing(["tests/test_sharp.py"]) == []
    judge.close()
