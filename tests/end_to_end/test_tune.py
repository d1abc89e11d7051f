"""A search as its user runs it: real steps, real trainings, killed in between."""

import json
import signal
import subprocess

import pytest

from detection_core.config.paths.field_texts import field_texts
from detection_core.python_process import python_command
from pipeline.settings.settings_file import load_settings
from pipeline.step_configs import training_config
from tests.end_to_end.conftest import ROOT, SMALL, environment
from tests.support.python_traps import set_traps

# `tests/pipeline/tuning` tests the same with trainings that take no time.
pytestmark = [pytest.mark.zoo, pytest.mark.slow, pytest.mark.tfx, pytest.mark.timeout(1200)]

CLIP = "train_config.gradient_clipping_by_norm"
SPACE = f"""
parameters:
  {CLIP}: {{low: 1.0, high: 10.0, log: true}}
trials: 3
"""


def test_a_search_that_is_killed_ends_with_the_file_of_its_winner(tmp_path, scenes):
    space, settings = tmp_path / "space.yaml", ROOT / "examples" / "digits" / "settings.yaml"
    space.write_text(SPACE)
    changes = (f"workspace={tmp_path / 'ws'}", f"data.path={scenes}", *SMALL)
    executed, cwd = set_traps(tmp_path / "started_in"), tmp_path / "started_in"
    command = [*python_command("pipeline.cli"), "tune", str(settings), "--space", str(space)]
    command += [f"--set={change}" for change in changes]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment(), cwd=cwd)
    assert process.stderr is not None
    for line in process.stderr:
        if "trial 2/3 begins" in line:
            process.send_signal(signal.SIGKILL)
            break
    assert process.wait(60) == -signal.SIGKILL
    process.stderr.close()

    again = [*command, "--json"]
    done = subprocess.run(again, capture_output=True, text=True, env=environment(), cwd=cwd, check=False)
    assert done.returncode == 0 and not executed.exists(), done.stderr
    found = json.loads(done.stdout)
    assert [t["number"] for t in found["trials"]] == [0, 1, 2]
    assert {t["state"] for t in found["trials"]} <= {"complete", "pruned"}
    assert found["score"] == max(t["score"] for t in found["trials"] if t["state"] == "complete")

    winning = load_settings(str(settings), changes, override_files=[found["override_file"]])
    fields = field_texts(training_config(winning, quantize=False))
    assert float(fields[CLIP]) == pytest.approx(found["overrides"][CLIP], rel=1e-5)
    assert int(fields["train_config.validation.every_steps"]) == 1
