"""The campaign sees faults, and killed trainings end as others do."""

import json
import re
import subprocess
import sys

import pytest

from detection_core.storage import files
from tests.faults.campaign import Campaign
from tests.faults.victims import Steps, Victim, compose_scenes

pytestmark = pytest.mark.slow  # dozens of killed processes

_NAMES = tuple(f"part-{n}" for n in range(6))


def _attacked(tmp_path, run):
    digest = lambda folder: {n: files.read_text(str(folder / "out" / n)) for n in _NAMES}  # noqa: E731
    victim, campaign = Victim(name="toy", run=run, digest=digest, share=1.0), Campaign(tmp_path / "trials", 3)
    reference = campaign.undisturbed(victim, tmp_path / "reference")
    campaign.kill(victim, 8, reference)
    campaign.fail(victim, 4, reference)
    campaign.set_clock_back(victim, 1, reference)
    return campaign.outcomes


def _write(folder):
    for name in _NAMES:
        files.write_text(f"{folder}/{name}", name)


def test_what_is_written_whole_is_resumed_and_identical(tmp_path, capsys):
    def run(folder):
        with files.atomic_dir(str(folder / "out")) as out:
            _write(out)

    outcomes = _attacked(tmp_path, run)
    tried, resumed, identical = outcomes.total
    assert tried == resumed == identical > 8 and not outcomes.wrong
    assert "kills: toy" in capsys.readouterr().out


def test_half_for_whole_and_a_crash_where_a_message_should_be_are_found(tmp_path):
    def run(folder):
        if not (folder / "out").exists():
            try:
                _write(folder / "out")
            except OSError as e:
                raise RuntimeError("something went wrong") from e

    outcomes = _attacked(tmp_path, run)
    assert outcomes.total[2] < outcomes.total[0] and "is not identical" in str(outcomes.wrong)
    assert any("no message but exit 1" in text for text in outcomes.wrong)


def test_an_undisturbed_run_is_remembered(tmp_path):
    victim = Victim(name="toy", run=lambda folder: folder.mkdir(), digest=lambda folder: "d", share=1.0)
    campaign = Campaign(tmp_path / "trials", seed=3)
    for _ in range(2):
        assert campaign.undisturbed(victim, tmp_path / "reference")[1] == "d"
    assert json.loads((tmp_path / "reference.json").read_text())["digest"] == "d"


@pytest.mark.faults
def test_a_killed_training_ends_with_the_bits_of_one_that_was_not():
    command = [sys.executable, "-m", "tests.faults.training_kills", "--kills", "50", "--seed", "1"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr[-2000:]
    print(ended.stdout)
    counts = re.search(r": (\d+) kills .* (\d+) resumed, (\d+) identical", ended.stdout)
    assert counts and int(counts[1]) == 50 and counts[2] == counts[3] != "0"


def test_every_step_of_the_workflow_is_a_victim_and_its_checks_are_json(tmp_path):
    """What a campaign prepares in a child process; the campaign itself runs in `make test-faults` only."""
    compose_scenes(tmp_path / "scenes")
    steps = Steps(tmp_path)
    checks = json.loads(json.dumps(steps.prepare()))
    names = [victim.name for victim in steps.victims(checks, [])]
    assert {"example_gen", "trainer", "evaluator", "tflite_exporter", "pusher"} <= set(names)
