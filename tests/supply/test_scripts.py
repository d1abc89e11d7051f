"""What .ci/audit.py, .ci/test_all.py and tests/mutants make of what they run."""

import ast
import re
import subprocess
import sys

import pytest

from tests.mutants.__main__ import candidates, choose
from tests.mutants.judge import Judge, rounds_for
from tests.mutants.operators import mutants_of
from tests.support.cases import cases
from tests.support.scripts import ROOT, load_script

audit = load_script(".ci/audit.py")
SOUND = {"name": "pyyaml", "version": "6.0.3", "vulns": []}
UNSEEN = {"name": "six", "version": "1.17.0", "skip_reason": "Dependency not found on PyPI"}
_VULNERABLE = {"id": "PYSEC-2022-10", "fix_versions": ["9.0.1"], "aliases": []}
FAULTY = {"name": "pillow", "version": "9.0.0", "vulns": [_VULNERABLE]}


@cases(
    ([SOUND], 0, "1 packages audited, 0 vulnerabilities"),
    ([SOUND, FAULTY], 1, "pillow 9.0.0: PYSEC-2022-10; fixed in: 9.0.1"),
    ([SOUND, UNSEEN], 0, "six 1.17.0: not audited"),
    ([UNSEEN, UNSEEN], 3, "NOT AUDITED, the database did not answer for any package"),
    ([], 3, "NOT AUDITED"),
)
def test_a_report_is_judged(*, packages, code, words):
    found, lines = audit.judge("some.lock", {"dependencies": packages})
    assert found == code and any(words in line for line in lines), lines


def test_without_a_report_its_reason_is_told_and_one_fault_counts_more_than_that(monkeypatch, capsys):
    class Done:
        stdout, stderr, returncode = "", "ERROR: no connection\n", 1

    monkeypatch.setattr(audit.subprocess, "run", lambda *a, **k: Done)
    code, lines = audit.judge("some.lock", audit.audit("some.lock"))
    assert code == audit.NOTHING_KNOWN and "ERROR: no connection" in lines[0]
    reports = {"a": {"dependencies": []}, "b": {"dependencies": [FAULTY]}, "c": {"dependencies": [SOUND]}}
    monkeypatch.setattr(audit, "audit", reports.__getitem__)
    assert audit.main(["a", "b", "c"]) == 1
    assert audit.main(["a", "c"]) == 3 and audit.main(["c"]) == 0
    assert "audit | " in capsys.readouterr().out
    assert set(audit.LOCKS) == {p.name for p in ROOT.glob("requirements*.lock")}


test_all = load_script(".ci/test_all.py")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a target that is a program, or tests; returns its result and the cases of its JUnit XML."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def call(name, text, *program):
        (tmp_path / "test_sample.py").write_text(text)
        command = [sys.executable, *program, str(tmp_path / "test_sample.py")]
        result = test_all.run(test_all.Target(name), tmp_path, command)
        return result, list(test_all.junit([result]).iter("testcase"))

    return call


def test_tests_and_scripts_are_counted_and_a_skip_and_a_failure_have_their_reason(run, tmp_path):
    xml = f"--junitxml={tmp_path / 'test-sample.xml'}"
    pytest_ = ("-m", "pytest", "-q", "-p", "no:cacheprovider", xml)
    body = "import pytest\ndef test_one(): pass\ndef test_two(): "
    result, _ = run("test-sample", f"{body}pytest.skip('no browser here')", *pytest_)
    assert result.row[:4] == ("test-sample", "1", "0", "1") and result.row[5] == "no browser here"
    result, cases = run("test-sample", f"{body}assert False", *pytest_)
    assert result.row[1:4] == ("1", "1", "0")
    assert result.reason == f"see {tmp_path / 'test-sample.log'}"
    assert [case.get("name") for case in cases if case.find("failure") is not None] == ["test_two"]
    result, (case,) = run("test-beam", "print('beam | SKIPPED: no Go here')")
    assert (result.failed, result.reason) == (0, "no Go here")
    assert case.find("skipped").get("message") == "no Go here"
    result, (case,) = run("test-faults", "raise SystemExit(3)")
    assert (result.failed, result.row[1]) == (1, "0")
    assert case.find("failure") is not None


def test_what_a_machine_lacks_is_named_and_every_target_of_the_makefile_is_run_and_no_other(capsys):
    target = test_all.Target("test-x", programs=("no-program-has-this-name",))
    assert test_all.missing(target, 1 << 40) == "no no-program-has-this-name here"
    target = test_all.Target("test-zoo", gibibytes=10)
    assert test_all.missing(target, 4 << 30) == "needs 10 GiB of memory, found 4"
    assert test_all.missing(target, 10 << 30) == ""
    assert test_all.main(["test-nothing"]) == 2
    assert "found test-nothing" in capsys.readouterr().out
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^(test(?:-[a-z]+)?): ", makefile, flags=re.MULTILINE))
    of_others = {"test-all", "test-changed", "test-record"}
    assert targets - of_others == {target.name for target in test_all.TARGETS}


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


def test_every_kind_of_fault_is_put_where_it_runs_and_drawn_again_by_its_seed(tmp_path):
    (tmp_path / "source.py").write_text(SOURCE)
    mutants = mutants_of(tmp_path, "source.py")
    assert [str(mutant).removeprefix("source.py:") for mutant in mutants] == EXPECTED.splitlines()
    changed = [mutant.apply(SOURCE.encode()).decode() for mutant in mutants]
    assert len({ast.dump(ast.parse(text)) for text in (SOURCE, *changed)}) == 1 + len(mutants)
    files = [file for file in candidates() if file.startswith("detection_core/ops/")]
    drawn = choose(files, 40, seed=3)
    assert drawn == choose(files, 40, seed=3) != choose(files, 40, seed=4)
    assert len({mutant.kind for mutant in drawn}) == 8
    place = f"{drawn[0].file}:{drawn[0].line}"
    at = choose([drawn[0].file], 40, 3, [place])
    assert drawn[0] in at and {mutant.line for mutant in at} == {drawn[0].line}
    assert {mutant.kind for mutant in choose([drawn[0].file], 40, 3, [f"{place} {at[0].kind}"])} == {
        at[0].kind
    }


def test_a_mutant_dies_by_the_test_that_fails_and_the_mirror_is_asked_first(tmp_path, monkeypatch):
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
    test_files = sorted((ROOT / "tests" / "detection_core" / "ops").glob("test_*.py"))
    near, ran, rest = rounds_for("detection_core/ops/boxes.py", test_files)
    assert near[0] == "tests/detection_core/ops/test_boxes.py"
    assert len({*near, *ran, *rest}) == len(near + ran + rest)
    assert "tests/detection_core/ops/test_iou.py" in near + ran + rest
