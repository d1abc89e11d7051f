"""What .ci/audit.py makes of pip-audit's reports: a database that does not answer is never a clean bill."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SOUND = {"name": "pyyaml", "version": "6.0.3", "vulns": []}
UNSEEN = {"name": "six", "version": "1.17.0", "skip_reason": "Dependency not found on PyPI"}
FAULTY = {
    "name": "pillow",
    "version": "9.0.0",
    "vulns": [{"id": "PYSEC-2022-10", "fix_versions": ["9.0.1"], "aliases": []}],
}


@pytest.fixture(scope="module")
def audit():
    spec = importlib.util.spec_from_file_location("audit", ROOT / ".ci" / "audit.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("packages", "code", "words"),
    [
        ([SOUND], 0, "1 packages audited, 0 vulnerabilities"),
        ([SOUND, FAULTY], 1, "pillow 9.0.0: PYSEC-2022-10; fixed in: 9.0.1"),
        ([SOUND, UNSEEN], 0, "six 1.17.0: not audited"),
        ([UNSEEN, UNSEEN], 3, "NOT AUDITED, the database did not answer for any package"),
        ([], 3, "NOT AUDITED"),
    ],
)
def test_a_report_is_judged(audit, packages, code, words):
    found, lines = audit.judge("some.lock", {"dependencies": packages})
    assert found == code and any(words in line for line in lines), lines


def test_without_a_report_its_reason_is_told(audit, monkeypatch):
    class Done:
        stdout, stderr, returncode = "", "ERROR: no connection\n", 1

    monkeypatch.setattr(audit.subprocess, "run", lambda *a, **k: Done)
    code, lines = audit.judge("some.lock", audit.audit("some.lock"))
    assert code == audit.NOTHING_KNOWN and "ERROR: no connection" in lines[0]


def test_one_fault_counts_more_than_what_is_not_known(audit, monkeypatch, capsys):
    reports = {"a": {"dependencies": []}, "b": {"dependencies": [FAULTY]}, "c": {"dependencies": [SOUND]}}
    monkeypatch.setattr(audit, "audit", reports.__getitem__)
    assert audit.main(["a", "b", "c"]) == 1
    assert audit.main(["a", "c"]) == 3 and audit.main(["c"]) == 0
    assert "audit | " in capsys.readouterr().out


def test_every_lock_is_audited(audit):
    assert set(audit.LOCKS) == {p.name for p in ROOT.glob("requirements*.lock")}
