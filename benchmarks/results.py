"""Results that benchmarks keep as JSON, and the tables of pages in docs that are made from them.

    python -m benchmarks.results            write the tables again
    python -m benchmarks.results --check    fail if a table is not as its JSON

A benchmark with `--keep NAME` writes benchmarks/results/NAME.json: its rows, and the command, machine, date
and commit. In a page a table stands between `<!-- results: NAME -->` and `<!-- end of results -->`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from detection_core.training.kernels import processor_flags

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (ROOT / "docs" / "measured.md", ROOT / "docs" / "first-things.md")
_TABLE = re.compile(r"(<!-- results: (\w+) -->\n).*?(<!-- end of results -->)", re.DOTALL)
_INSTRUCTIONS = {"amx_bf16": "AMX", "avx512_bf16": "AVX-512 bfloat16", "avx512f": "AVX-512", "avx2": "AVX2"}


def add_keep(parser: argparse.ArgumentParser) -> None:
    """Add the argument `--keep` to a benchmark."""
    parser.add_argument("--keep", metavar="NAME", help="write the rows to benchmarks/results/NAME.json")


def keep(name: str | None, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows, each column to value, with what they were measured on; nothing without a name."""
    if not name:
        return
    commit = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    module = Path(sys.argv[0]).stem
    words = [os.path.basename(word) or word for word in sys.argv[1:]]
    result = {
        "command": shlex.join(["python", "-m", f"benchmarks.{module}", *words]),
        "machine": machine(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": commit,
        "rows": list(rows),
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def machine() -> str:
    """Return the processor's name, the number of cores and the widest of its vector instructions."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    flags = processor_flags("/proc/cpuinfo")
    widest = next((name for flag, name in _INSTRUCTIONS.items() if flag in flags), "no AVX")
    return f"{len(os.sched_getaffinity(0))} cores of {names[0] if names else 'a processor'} ({widest})"


def table(result: Mapping[str, Any]) -> str:
    """Return a result as Markdown."""
    columns = list(result["rows"][0])
    lines = [columns, ["---"] * len(columns), *([str(row[c]) for c in columns] for row in result["rows"])]
    head = f"`{result['command']}`, {result['date']}, commit {result['commit']}, {result['machine']}:"
    return "\n".join(
        [head, "", *("|" + "".join(f" {cell} |" if cell else " |" for cell in line) for line in lines)]
    )


def with_tables(page: str) -> str:
    """Return the page with every table as its JSON has it; FileNotFoundError without that."""

    def made(found: re.Match[str]) -> str:
        result = json.loads((RESULTS / f"{found[2]}.json").read_text(encoding="utf-8"))
        return f"{found[1]}\n{table(result)}\n\n{found[3]}"

    return _TABLE.sub(made, page)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        made = with_tables(page)
        if check and made != page:
            print(f"{path.name} is not as benchmarks/results has it; run python -m benchmarks.results")
            return 1
        if not check:
            path.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
