import re

from pipeline.cli.tune import _describe
from pipeline.tuning.search import TrialRecord
from pipeline.tuning.settings_search import TuneResult

TRIALS = (
    TrialRecord(number=0, state="complete", score=0.5, overrides={"learning_rate": 0.01}),
    TrialRecord(number=1, state="complete", score=0.75, overrides={"learning_rate": 0.02}),
    TrialRecord(number=2, state="pruned", score=None, overrides={"learning_rate": 1.0}, reason="diverged"),
)
RESULT = TuneResult(trials=TRIALS, best=TRIALS[1], overrides="out/best.yaml", model="out/trials/0001/model")


def test_the_trials_are_listed_best_first_and_wrong_numbers_are_refused(cli):
    found = _describe(RESULT, "s.yaml")
    table, text = found.text.parts
    assert [row[0] for row in table.rows[1:]] == ["2", "1", "3"]
    assert "detflow run s.yaml --override-file out/best.yaml" in text
    assert re.search(r"^score=0\.7500000000$", text, re.MULTILINE)
    assert (found.data["best"], found.data["score"]) == (1, 0.75)
    words = ["tune", "settings.yaml", "--space", "space.yaml"]
    for flag in ("--workers", "--trials"):
        assert f"{flag}: expected 1 or more, found 0" in cli.refused(*words, flag, "0")
    told = cli.refused(*words, "--output", "s3://bucket/search")
    assert "--output: expected a folder on this machine" in told
