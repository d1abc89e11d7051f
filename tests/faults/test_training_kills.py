"""A killed training ends as one that nobody disturbed, wherever the kill came."""

import re
import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("kills", [3, pytest.param(50, marks=pytest.mark.faults)])
def test_a_killed_training_ends_with_the_bits_of_one_that_was_not(kills):
    command = [sys.executable, "-m", "tests.faults.training_kills", "--kills", str(kills), "--seed", "1"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr[-2000:]
    print(ended.stdout)
    counts = re.search(r": (\d+) kills .* (\d+) resumed, (\d+) identical", ended.stdout)
    assert counts and int(counts[1]) == kills and counts[2] == counts[3] != "0"
