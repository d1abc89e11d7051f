"""Run the hostile corpus, or a part of it.

python -m tests.hostile --seed 7 --only 'coco/|yolo/nc'
"""

import argparse
import collections
import importlib
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

from tests.hostile.runner import import_everything, run_cases

_KINDS = "images coco_files formats given_data texts places network secrets models"


def all_cases():
    """Yield every case, in the order in which they run; refuse two of one name."""
    names = set()
    for kind in _KINDS.split():
        for case in importlib.import_module(f"tests.hostile.{kind}").cases():
            if case.name in names:
                raise ValueError(f"expected one case of a name, found two of {case.name}")
            names.add(case.name)
            yield case


def main():
    """Print a line for each case and the counts of each kind; return 1 where a case failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of what is random in the cases")
    parser.add_argument("--only", default="", help="regular expression that their names contain")
    parser.add_argument("--jobs", type=int, default=2, help="how many run at a time")
    parser.add_argument("--keep", help="folder for what failed cases read and wrote; otherwise removed")
    parser.add_argument("--quiet", action="store_true", help="print failures only")
    parser.add_argument("--list", action="store_true", help="print names and run nothing")
    arguments = parser.parse_args()
    cases = [case for case in all_cases() if re.search(arguments.only, case.name)]
    if arguments.list:
        sys.stdout.write("".join(f"{case.name}\n" for case in cases))
        return 0
    import_everything()
    folder = Path(arguments.keep or tempfile.mkdtemp(prefix="hostile-"))
    passed, failed = collections.Counter[str](), collections.Counter[str]()
    try:
        for result in run_cases(cases, arguments.seed, folder.resolve(), arguments.jobs):
            (passed if result.passed else failed)[result.case.kind] += 1
            if not (arguments.quiet and result.passed):
                print(result.line(), flush=True)
    finally:
        if not arguments.keep:
            shutil.rmtree(folder, ignore_errors=True)
    for kind in dict.fromkeys(case.kind for case in cases):
        print(f"{kind}: {passed[kind]} passed, {failed[kind]} failed")
    print(f"seed {arguments.seed}: {passed.total()} passed, {failed.total()} failed")
    return min(failed.total(), 1)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # Threads of imported libraries may not end.
