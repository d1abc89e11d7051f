"""The campaign sees what it is there to see."""

import json

import pytest

from detection_core.storage import files
from tests.faults.campaign import Campaign
from tests.faults.victims import Victim

pytestmark = pytest.mark.slow  # dozens of killed processes

_NAMES = tuple(f"part-{n}" for n in range(6))


def _digest(folder):
    return {n: files.read_text(str(folder / "out" / n)) for n in _NAMES}


def _attacked(tmp_path, run):
    victim = Victim(name="toy", run=run, digest=_digest, share=1.0)
    campaign = Campaign(tmp_path / "trials", seed=3)
    reference = campaign.undisturbed(victim, tmp_path / "reference")
    campaign.kill(victim, 12, reference)
    campaign.fail(victim, 6, reference)
    campaign.set_clock_back(victim, 2, reference)
    return campaign.outcomes


def test_what_is_written_whole_is_resumed_and_identical(tmp_path, capsys):
    def run(folder):
        with files.atomic_dir(str(folder / "out")) as out:
            for name in _NAMES:
                files.write_text(f"{out}/{name}", name)

    outcomes = _attacked(tmp_path, run)
    tried, resumed, identical = outcomes.total
    assert tried == resumed == identical > 10 and not outcomes.wrong
    assert "kills: toy" in capsys.readouterr().out


def test_what_takes_half_for_whole_is_found(tmp_path):
    def run(folder):
        if (folder / "out").exists():
            return
        for name in _NAMES:
            files.write_text(str(folder / "out" / name), name)

    outcomes = _attacked(tmp_path, run)
    tried, _, identical = outcomes.total
    assert identical < tried and outcomes.wrong


def test_a_crash_where_a_message_should_be_is_found(tmp_path):
    def run(folder):
        try:
            for name in _NAMES:
                files.write_text(str(folder / "out" / name), name)
        except OSError as e:
            raise RuntimeError("something went wrong") from e

    assert any("no message but exit 1" in text for text in _attacked(tmp_path, run).wrong)


def test_an_undisturbed_run_is_remembered(tmp_path):
    victim = Victim(name="toy", run=lambda folder: folder.mkdir(), digest=lambda folder: "d", share=1.0)
    campaign = Campaign(tmp_path / "trials", seed=3)
    _, digest = campaign.undisturbed(victim, tmp_path / "reference")
    assert campaign.undisturbed(victim, tmp_path / "reference")[1] == digest == "d"
    assert json.loads((tmp_path / "reference.json").read_text())["digest"] == "d"
