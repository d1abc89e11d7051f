"""What .ci/audit.py makes of pip-audit's reports: a database that does not answer is never a clean bill."""

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


def test_without_a_report_its_reason_is_told(monkeypatch):
    class Done:
        stdout, stderr, returncode = "", "ERROR: no connection\n", 1

    monkeypatch.setattr(audit.subprocess, "run", lambda *a, **k: Done)
    code, lines = audit.judge("some.lock", audit.audit("some.lock"))
    assert code == audit.NOTHING_KNOWN and "ERROR: no connection" in lines[0]


def test_one_fault_counts_more_than_what_is_not_known_and_every_lock_is_audited(monkeypatch, capsys):
    reports = {"a": {"dependencies": []}, "b": {"dependencies": [FAULTY]}, "c": {"dependencies": [SOUND]}}
    monkeypatch.setattr(audit, "audit", reports.__getitem__)
    assert audit.main(["a", "b", "c"]) == 1
    assert audit.main(["a", "c"]) == 3 and audit.main(["c"]) == 0
    assert "audit | " in capsys.readouterr().out
    assert set(audit.LOCKS) == {p.name for p in ROOT.glob("requirements*.lock")}
