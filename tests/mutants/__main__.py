"""Put small faults into the packages and see which of them no test notices.

`python -m tests.mutants --number 200 --seed 1` judges 200 mutants; `--since main` only those of files that
changed since a commit; `--at FILE:LINE` or `--at "FILE:LINE KIND"` those of a line. The verdicts lie in
build/mutants. Exit codes: 0 judged; 1 a test that killed a mutant fails without it, too; 2 wrong arguments.
"""

import argparse
import concurrent.futures
import itertools
import json
import queue
import random
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.judge import Judge, Verdict, rounds_for
from tests.mutants.operators import Mutant, mutants_of
from tests.support.changed_files import changed_files
from tests.support.import_closure import ROOT

PACKAGES = ("detection_core", "components", "component_specs", "pipeline")
OUTPUT = ROOT / "build" / "mutants"


def main(arguments: Sequence[str] | None = None) -> int:
    """Choose, judge and report."""
    options = _parser().parse_args(arguments)
    files = {place.rpartition(":")[0] for place in options.at} or candidates(options.since)
    mutants = choose(sorted(files), options.number, options.seed, options.at)
    test_files = sorted((ROOT / "tests").rglob("test_*.py"))
    judges: queue.SimpleQueue[Judge] = queue.SimpleQueue()
    for place in range(options.workers):
        judges.put(Judge(OUTPUT / f"tree-{place}", options.seconds))
    end = time.monotonic() + options.minutes * 60
    verdicts: list[Verdict] = []

    def judged(mutant: Mutant) -> Verdict | None:
        if time.monotonic() > end:
            return None
        judge = judges.get()
        try:
            return judge(mutant, rounds_for(mutant.file, test_files))
        finally:
            judges.put(judge)

    with concurrent.futures.ThreadPoolExecutor(options.workers) as pool:
        for verdict in pool.map(judged, mutants):
            if verdict is not None:
                verdicts.append(verdict)
                print(f"{len(verdicts)}/{len(mutants)} {_line(verdict)}", flush=True)
    doubtful = judges.get().failing(sorted({verdict.killed_by for verdict in verdicts if verdict.killed_by}))
    _report(verdicts, len(mutants), options.seed)
    if options.junitxml:
        ET.ElementTree(_junit(verdicts)).write(options.junitxml, encoding="utf-8", xml_declaration=True)
    for test in doubtful:
        print(f"fails without a mutant, too: {test}")
    return 1 if doubtful else 0


def candidates(since: str = "") -> list[str]:
    """List the files that mutants are put into: all, or those that changed since a commit."""
    files = [
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if not path.name.endswith(("_pb2.py", "_generated.py"))
    ]
    changed = changed_files(since) if since else set(files)
    return [file for file in files if file in changed]


def choose(files: Sequence[str], number: int, seed: int, places: Sequence[str] = ()) -> list[Mutant]:
    """Draw as many mutants of each kind from these files, or from these places of them.

    Args:
        files: relative to the root.
        number: of mutants at most.
        seed: of the draw.
        places: `FILE:LINE` or `FILE:LINE KIND`; none for all.
    """
    starts = tuple(place + end for place in places for end in " :") or ""
    draws = random.Random(seed)
    kinds: dict[str, list[Mutant]] = {}
    for mutant in (mutant for file in files for mutant in mutants_of(ROOT, file)):
        if str(mutant).startswith(starts):
            kinds.setdefault(mutant.kind, []).append(mutant)
    for found in kinds.values():
        draws.shuffle(found)
    in_turns = itertools.chain.from_iterable(itertools.zip_longest(*kinds.values()))
    return list(itertools.islice((mutant for mutant in in_turns if mutant), number))


def _report(verdicts: Sequence[Verdict], chosen: int, seed: int) -> None:
    survivors = [verdict for verdict in verdicts if not verdict.killed_by]
    rows = [{**v.mutant.__dict__, "killed_by": v.killed_by, "complete": v.complete} for v in verdicts]
    OUTPUT.mkdir(parents=True, exist_ok=True)
    Path(OUTPUT / f"verdicts-{seed}.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    print(f"\n{len(verdicts)} of {chosen} mutants judged, {len(survivors)} survived:")
    for verdict in sorted(survivors, key=lambda verdict: str(verdict.mutant)):
        print(f"  {_line(verdict)}")


def _junit(verdicts: Sequence[Verdict]) -> ET.Element:
    """Give each mutant as a test, skipped where it survived: whether it should have died is for people."""
    survived = str(sum(not verdict.killed_by for verdict in verdicts))
    root = ET.Element("testsuites")
    counts = {"tests": str(len(verdicts)), "failures": "0", "errors": "0", "skipped": survived}
    suite = ET.SubElement(root, "testsuite", name="mutants", **counts)
    for verdict in verdicts:
        case = ET.SubElement(suite, "testcase", classname=verdict.mutant.file, name=str(verdict.mutant))
        if not verdict.killed_by:
            ET.SubElement(case, "skipped", message="survived" if verdict.complete else "out of time")
    return root


def _line(verdict: Verdict) -> str:
    fate = f"killed by {verdict.killed_by}" if verdict.killed_by else "SURVIVED"
    fate += "" if verdict.complete else " (out of time)"
    return f"{verdict.mutant} | {fate} | {verdict.seconds:.0f} s"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--number", type=int, default=200, help="of mutants at most")
    parser.add_argument("--seed", type=int, default=1, help="of their choice")
    parser.add_argument("--since", default="", help="a commit: only files that changed since then")
    parser.add_argument("--at", nargs="+", default=[], metavar="FILE:LINE[ KIND]", help="only these")
    parser.add_argument("--minutes", type=float, default=60.0, help="no mutant is begun after these")
    parser.add_argument("--seconds", type=float, default=180.0, help="for one mutant at most")
    parser.add_argument("--workers", type=int, default=2, help="mutants at a time")
    parser.add_argument("--junitxml", default="", help="file for the verdicts as tests")
    return parser


if __name__ == "__main__":
    sys.exit(main())
