"""Run every test target that this machine can run and print one table: `make test-all`.

A failure does not stop the others. The table comes again as JUnit XML, with every test of every target.
`make test-all TARGETS="test zoo"` runs some of them. Exit codes: 0 none failed; 1 some did.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

OUTPUT = Path("build/test-all")
GIBIBYTE = 1 << 30
# A script that finds something missing prints this and succeeds.
SKIPPED = re.compile(r"SKIPPED: (.*)")


@dataclasses.dataclass(frozen=True)
class Target:
    """A make target whose tests write JUnit XML.

    Attributes:
        name: as `make` knows it.
        programs: that have to be on PATH; the target's own script looks for all others.
        gibibytes: of memory that it needs.
    """

    name: str
    programs: tuple[str, ...] = ()
    gibibytes: int = 0


# By risk: what every change touches, what loses data, what every user runs, what other software does with it.
TARGETS = (
    Target("test"),
    Target("test-slow"),
    Target("test-faults"),
    Target("test-zoo", gibibytes=10),
    Target("test-containers"),
    Target("test-install"),
    Target("test-browser"),
    Target("test-cluster"),
    Target("test-beam"),
    Target("test-engines"),
    Target("test-azure", programs=("npm",)),
    Target("test-mediapipe"),
    Target("test-runtimes"),
    Target("test-trackers"),
    Target("test-mutants"),
)


@dataclasses.dataclass
class Result:
    """What came of a target."""

    target: str
    suites: list[ET.Element]
    exit_code: int = 0
    seconds: float = 0.0
    reason: str = ""

    def count(self, kind: str) -> int:
        """Count tests of a kind: tests, failures, errors or skipped."""
        return sum(int(suite.get(kind, 0)) for suite in self.suites)

    @property
    def failed(self) -> int:
        """Failed tests; one where the target failed beside its tests."""
        return self.count("failures") + self.count("errors") or int(self.exit_code != 0)

    @property
    def row(self) -> tuple[str, ...]:
        """The target's row of the table."""
        skipped = self.count("skipped")
        passed = self.count("tests") - self.count("failures") - self.count("errors") - skipped
        counts = (passed, self.failed, skipped)
        return (self.target, *map(str, counts), f"{self.seconds / 60:.1f}", self.reason)


def missing(target: Target, memory: int) -> str:
    """Say what a machine with so many bytes of memory lacks for a target, or ""."""
    absent = [program for program in target.programs if shutil.which(program) is None]
    if absent:
        return f"no {' or '.join(absent)} here"
    if memory < target.gibibytes * GIBIBYTE:
        return f"needs {target.gibibytes} GiB of memory, found {memory // GIBIBYTE}"
    return ""


def run(target: Target, output: Path, command: Sequence[str]) -> Result:
    """Run a command as a target; its log goes to the output folder, where it writes `NAME.xml`."""
    xml, log = output / f"{target.name}.xml", output / f"{target.name}.log"
    xml.unlink(missing_ok=True)
    start = time.monotonic()
    with log.open("w", encoding="utf-8") as sink:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, check=False)
    seconds = time.monotonic() - start
    suites = list(ET.parse(xml).getroot().iter("testsuite")) if xml.exists() else []
    result = Result(target.name, suites, done.returncode, seconds)
    result.reason = _reason(result, log.read_text(encoding="utf-8", errors="replace"), log)
    return result


def _reason(result: Result, text: str, log: Path) -> str:
    """Say why tests failed or did not run: the log, the script's words or the most frequent skip."""
    if result.failed:
        return f"see {log}"
    if not result.suites:
        found = SKIPPED.search(text)
        return found[1] if found else f"ran no test; see {log}"
    reasons = [skip.get("message", "") for suite in result.suites for skip in suite.iter("skipped")]
    return max(reasons, key=reasons.count).splitlines()[0] if reasons else ""


def table(results: Sequence[Result]) -> list[str]:
    """Lay the results out in columns."""
    rows = [("target", "passed", "failed", "skipped", "minutes", "reason"), *(r.row for r in results)]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = []
    for row in rows:
        numbers = "  ".join(text.rjust(width) for text, width in zip(row[1:5], widths[1:], strict=True))
        lines.append(f"{row[0].ljust(widths[0])}  {numbers}  {row[5]}".rstrip())
    return lines


def junit(results: Sequence[Result]) -> ET.Element:
    """Gather all suites, with a test in the name of each target that has none or failed beside its tests."""
    root = ET.Element("testsuites")
    for result in results:
        for suite in result.suites:
            suite.set("name", result.target)
            root.append(suite)
        lone_failure = result.failed and not result.count("failures") + result.count("errors")
        if result.suites and not lone_failure:
            continue
        kind = "failure" if result.failed else "skipped"
        counts = {"failures": str(int(kind == "failure")), "skipped": str(int(kind == "skipped"))}
        suite = ET.SubElement(root, "testsuite", name=result.target, tests="1", errors="0", **counts)
        case = ET.SubElement(suite, "testcase", classname=result.target, name="make")
        ET.SubElement(case, kind, message=result.reason)
    return root


def main(names: Sequence[str]) -> int:
    """Run the targets of some names, or all, and print the table."""
    known = {target.name: target for target in TARGETS}
    unknown = sorted(set(names) - known.keys())
    if unknown:
        print(f"test-all | expected targets among {', '.join(known)}, found {', '.join(unknown)}")
        return 2
    OUTPUT.mkdir(parents=True, exist_ok=True)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    results: list[Result] = []
    for target in [known[name] for name in names] or TARGETS:
        print(f"test-all | {target.name} ...", flush=True)
        reason = missing(target, memory)
        if reason:
            result = Result(target.name, [], reason=reason)
        else:
            arguments = (
                f"PYTEST_ARGS={os.environ.get('PYTEST_ARGS', '')} --junitxml={OUTPUT / target.name}.xml"
            )
            result = run(target, OUTPUT, ["make", "--no-print-directory", target.name, arguments])
        results.append(result)
        # Written again after each target, so that an interrupted run leaves its results.
        ET.ElementTree(junit(results)).write(OUTPUT / "junit.xml", encoding="utf-8", xml_declaration=True)
        (OUTPUT / "table.txt").write_text("\n".join(table(results)) + "\n", encoding="utf-8")
    print("\n".join(table(results)))
    return int(any(result.failed for result in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
