"""A search as its user runs it: real steps, real trainings, killed in between."""

import signal

import pytest

from detection_core.config.paths.overrides import field_texts
from pipeline.settings.settings_file import load_settings
from pipeline.step_configs import training_config
from tests.end_to_end.conftest import Workflow

# `tests/pipeline/tuning` tests the same with trainings that take no time.
pytestmark = [pytest.mark.zoo, pytest.mark.slow, pytest.mark.tfx, pytest.mark.timeout(1200)]

CLIP = "train_config.gradient_clipping_by_norm"
SPACE = f"""
parameters:
  {CLIP}: {{low: 1.0, high: 10.0, log: true}}
trials: 3
"""


def test_a_search_that_is_killed_ends_with_the_file_of_its_winner(tmp_path, scenes):
    workflow, space = Workflow(tmp_path, scenes), tmp_path / "space.yaml"
    space.write_text(SPACE)
    words = ("tune", workflow.settings, "--space", space, *workflow.sets())
    process = workflow.start(*words)
    for line in process.stderr:
        if "trial 2/3 begins" in line:
            process.send_signal(signal.SIGKILL)
            break
    assert process.wait(60) == -signal.SIGKILL
    process.stderr.close()
    found = workflow.call_process(*words)
    assert [t["number"] for t in found["trials"]] == [0, 1, 2]
    assert {t["state"] for t in found["trials"]} <= {"complete", "pruned"}
    assert found["score"] == max(t["score"] for t in found["trials"] if t["state"] == "complete")

    changes = [word.removeprefix("--set=") for word in workflow.sets()]
    winning = load_settings(str(workflow.settings), changes, override_files=[found["override_file"]])
    fields = field_texts(training_config(winning, quantize=False))
    assert float(fields[CLIP]) == pytest.approx(found["overrides"][CLIP], rel=1e-5)
    assert int(fields["train_config.validation.every_steps"]) == 1
