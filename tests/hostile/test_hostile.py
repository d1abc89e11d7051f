"""The hostile corpus: no crash, no hang, no blow-up of memory, one message.

HOSTILE_SEED=7 python -m pytest -s -m faults tests/hostile
"""

import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600)]


def test_every_hostile_case_ends_as_it_should():
    command = [
        sys.executable,
        "-m",
        "tests.hostile",
        "--quiet",
        "--seed",
        os.environ.get("HOSTILE_SEED", "1"),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    sys.stdout.write(done.stdout)
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAIL")]
    assert done.returncode == 0 and not failed, "\n".join(failed)
