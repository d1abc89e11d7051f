"""The hostile corpus: no crash, no hang, no blow-up of memory, one message.

HOSTILE_SEED=7 python -m pytest -s -m faults tests/hostile
"""

import collections
import importlib.util
import os
import subprocess
import sys

import pytest

from tests.hostile.__main__ import all_cases


@pytest.mark.faults
@pytest.mark.timeout(3600)
def test_every_hostile_case_ends_as_it_should():
    command = [sys.executable, "-m", "tests.hostile", "--quiet", "--seed"]
    command.append(os.environ.get("HOSTILE_SEED", "1"))
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    sys.stdout.write(done.stdout)
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAIL")]
    assert done.returncode == 0 and not failed, "\n".join(failed)


def test_every_case_calls_the_command_line_or_a_step():
    cases = list(all_cases())
    kinds = collections.Counter(case.kind for case in cases)
    modules = {case.command[0] for case in cases}
    assert len(kinds) > 25 and kinds.total() > 1_500
    for module in modules:
        assert module == "pipeline.cli" or module.startswith("components.")
        assert importlib.util.find_spec(f"{module}.__main__"), module
