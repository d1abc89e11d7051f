"""Look the packages of the lock files up in PyPI's vulnerability database, with pip-audit: `make audit`.

Exit codes: 0 none known; 1 some are; 3 the database did not answer for one package, so that nothing is known.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

LOCKS = (
    "requirements-image.lock",
    "requirements-image-gpu.lock",
    "requirements-image-cli.lock",
    "requirements.lock",
)
FOUND, NOTHING_KNOWN = 1, 3


def audit(lock: str) -> dict:
    """Return pip-audit's report on a lock file."""
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--no-deps", "--progress-spinner=off"]
    done = subprocess.run(
        [*command, "--format=json", "-r", lock], capture_output=True, text=True, check=False, timeout=1800
    )
    try:
        return json.loads(done.stdout)
    except ValueError:
        # Without a connection there is no report at all.
        lines = done.stderr.strip().splitlines()
        return {"dependencies": [], "error": lines[-1] if lines else f"exit code {done.returncode}"}


def judge(lock: str, report: dict) -> tuple[int, list[str]]:
    """Return the exit code and the lines for a report."""
    packages = report["dependencies"]
    skipped = [p for p in packages if "skip_reason" in p]
    if len(skipped) == len(packages):
        reason = report.get("error") or (skipped[0]["skip_reason"] if skipped else "no package in the lock")
        return NOTHING_KNOWN, [f"{lock}: NOT AUDITED, the database did not answer for any package: {reason}"]
    faults = [(p, v) for p in packages for v in p.get("vulns", ())]
    lines = [f"{lock}: {len(packages) - len(skipped)} packages audited, {len(faults)} vulnerabilities"]
    lines += [f"  {p['name']} {p['version']}: not audited: {p['skip_reason']}" for p in skipped]
    for package, fault in faults:
        fixed = ", ".join(fault["fix_versions"]) or "none yet"
        lines.append(f"  {package['name']} {package['version']}: {fault['id']}; fixed in: {fixed}")
    return FOUND if faults else 0, lines


def main(locks: Sequence[str]) -> int:
    """Audit lock files and print what is known."""
    codes = []
    for lock in locks or LOCKS:
        code, lines = judge(lock, audit(lock))
        codes.append(code)
        print("\n".join(f"audit | {line}" for line in lines), flush=True)
    return FOUND if FOUND in codes else max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
