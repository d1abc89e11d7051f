"""What the search is told, and what it makes of it."""

import tempfile
from typing import Any, ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

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


def lines(*scores):
    return [ValidationLine(step=10 * i, score=score) for i, score in enumerate(scores, 1)]


def test_values_are_of_the_space_and_drawn_again_after_a_kill(tmp_path):
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
    first = Search(SPACE, str(tmp_path / "first")).ask()
    Search(SPACE, str(tmp_path / "killed"))._study.ask()
    [again] = Search(SPACE, str(tmp_path / "killed")).interrupted()
    assert again.overrides == first.overrides


def test_a_trial_counts_by_its_best_score_and_without_one_says_nothing_of_its_values(tmp_path):
    search = Search(SPACE, str(tmp_path))
    trial = search.ask()
    trial.report(lines(None))
    search.complete(trial)
    [record] = search.records()
    assert (record.state, record.reason, search.best) == ("failed", "no validation has a score", None)
    trial = search.ask()
    trial.report(lines(None, 0.2))
    trial.report(lines(None, 0.2, 0.7, 0.4))
    search.complete(trial)
    assert search.best is not None and search.best.score == 0.7


def test_the_middle_of_the_others_decides_who_goes_on(tmp_path):
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


class Searching(RuleBasedStateMachine):
    """A search whose process is killed between any two of its doings, beside what it has to remember.

    What Optuna may do is Optuna's own: the real study and its journal are run.
    """

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.space = Space(parameters=SPACE.parameters, sampler="random", pruner="none")
        self.search = Search(self.space, self.folder.name)
        self.running, self.values, self.scores, self.ended = {}, {}, {}, {}  # by number

    def teardown(self):
        self.folder.cleanup()

    @rule()
    def a_trial_begins(self):
        trial = self.search.ask()
        assert trial.number == len(self.values), "numbers follow each other"
        self.running[trial.number] = trial
        self.values[trial.number] = dict(trial.overrides)
        self.scores[trial.number] = []

    @precondition(lambda self: self.running)
    @rule(data=st.data(), score=st.floats(0, 1, width=32))
    def a_trial_is_validated(self, data, score):
        number = data.draw(st.sampled_from(sorted(self.running)))
        self.scores[number].append(score)
        self.running[number].report(lines(*self.scores[number]))

    @precondition(lambda self: self.running)
    @rule(data=st.data(), end=st.sampled_from(["complete", "pruned", "failed"]))
    def a_trial_ends(self, data, end):
        number = data.draw(st.sampled_from(sorted(self.running)))
        trial = self.running.pop(number)
        if end == "complete":
            self.search.complete(trial)
            end = "complete" if self.scores[number] else "failed"
        elif end == "pruned":
            self.search.prune(trial, "worse than others")
        else:
            self.search.fail(trial, "a loss that is not finite")
        self.ended[number] = end

    @rule()
    def the_process_is_killed_and_another_goes_on(self):
        self.search = Search(self.space, self.folder.name)
        again = {trial.number: trial for trial in self.search.interrupted()}
        assert again.keys() == self.running.keys()
        for number, trial in again.items():
            assert trial.overrides == self.values[number]
            trial.report(lines(*self.scores[number]))  # its work folder has them still
        self.running = again

    @invariant()
    def every_trial_is_told_as_it_went(self):
        records = self.search.records()
        assert [r.number for r in records] == list(self.values)
        assert {r.number: r.state for r in records} == {n: self.ended.get(n, "running") for n in self.values}
        assert {r.number: dict(r.overrides) for r in records} == self.values

    @invariant()
    def the_best_is_the_first_of_the_highest_scores(self):
        complete = {n: max(self.scores[n]) for n, state in self.ended.items() if state == "complete"}
        best = self.search.best
        assert (best is None) == (not complete)
        if best is not None:
            assert best.score == max(complete.values()) == complete[best.number]
            assert all(complete[n] < best.score for n in complete if n < best.number)

    @invariant()
    def values_do_not_depend_on_what_was_killed(self):
        for number, values in self.values.items():
            assert self.drawn.setdefault(number, values) == values

    drawn: ClassVar[dict[int, dict[str, Any]]] = {}
    """By number, over all runs of the machine."""


TestSearching = Searching.TestCase
TestSearching.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)
