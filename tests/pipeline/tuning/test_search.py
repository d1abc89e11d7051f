"""What the search is told, and what it makes of it."""

from __future__ import annotations

from pathlib import Path

from detection_core.artifacts.model_run import ValidationLine
from pipeline.tuning.search import Search
from pipeline.tuning.space import Parameter, Space

SPACE = Space(
    parameters={
        "rate": Parameter(low=1e-4, high=1e-1, log=True),
        "batch": Parameter(low=4, high=16, step=4),
        "kind": Parameter(choices=("a", "b", True)),
    }
)


def lines(*scores: float | None) -> list[ValidationLine]:
    return [ValidationLine(step=10 * i, score=score) for i, score in enumerate(scores, 1)]


def test_values_are_of_the_space(tmp_path: Path) -> None:
    search = Search(SPACE, str(tmp_path))
    for _ in range(8):
        trial = search.ask()
        values = trial.overrides
        assert 1e-4 <= values["rate"] <= 1e-1
        assert isinstance(values["batch"], int) and values["batch"] in (4, 8, 12, 16)
        assert values["kind"] in ("a", "b", True)
        trial.report(lines(0.1))
        search.complete(trial)
    assert len({record.overrides["rate"] for record in search.records()}) == 8


def test_a_trial_counts_by_its_best_score(tmp_path: Path) -> None:
    search = Search(SPACE, str(tmp_path))
    trial = search.ask()
    trial.report(lines(None, 0.2))
    trial.report(lines(None, 0.2, 0.7, 0.4))
    search.complete(trial)
    assert search.best is not None and search.best.score == 0.7


def test_a_trial_without_a_score_says_nothing_of_its_values(tmp_path: Path) -> None:
    search = Search(SPACE, str(tmp_path))
    trial = search.ask()
    trial.report(lines(None))
    search.complete(trial)
    [record] = search.records()
    assert (record.state, record.reason, search.best) == ("failed", "no validation has a score", None)


def test_a_trial_of_a_process_that_is_gone_is_taken_up_with_its_values(tmp_path: Path) -> None:
    first = Search(SPACE, str(tmp_path)).ask()
    first.report(lines(0.1, 0.3))
    search = Search(SPACE, str(tmp_path))
    [again] = search.interrupted()
    assert (again.number, again.overrides) == (first.number, first.overrides)
    again.report(lines(0.1, 0.3, 0.2))  # what its work folder holds now
    search.complete(again)
    assert search.best is not None and search.best.score == 0.3
    assert search.interrupted() == []


def test_values_that_were_not_kept_before_a_kill_are_drawn_as_they_would_have_been(tmp_path: Path) -> None:
    straight = Search(SPACE, str(tmp_path / "straight")).ask()
    Search(SPACE, str(tmp_path / "killed"))._study.ask()
    [again] = Search(SPACE, str(tmp_path / "killed")).interrupted()
    assert again.overrides == straight.overrides


def test_the_middle_of_the_others_decides_who_goes_on(tmp_path: Path) -> None:
    search = Search(Space(parameters=SPACE.parameters, startup_trials=2), str(tmp_path))
    for scores in ((0.5, 0.6, 0.7), (0.4, 0.5, 0.6)):
        trial = search.ask()
        trial.report(lines(*scores))
        assert not trial.is_hopeless()
        search.complete(trial)
    good, bad = search.ask(), search.ask()
    bad.report(lines(0.1))
    assert not bad.is_hopeless(), "the first validation decides nothing"
    good.report(lines(0.5, 0.6))
    bad.report(lines(0.1, 0.2))
    assert bad.is_hopeless() and not good.is_hopeless()
