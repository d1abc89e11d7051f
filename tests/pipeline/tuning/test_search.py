"""The inputs and results of the search, and a search from settings to the winner's file."""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from detection_core.artifacts.blessing import write_blessing
from detection_core.artifacts.model_run import ValidationLine
from detection_core.config.load import load_pipeline_config
from detection_core.config.paths.overrides import apply_overrides, merge_override_file
from detection_core.errors import ConfigError
from pipeline.settings.settings_file import load_settings
from pipeline.tuning.search import Parameter, Search, Space
from pipeline.tuning.settings_search import check_space, tune, validation_overrides
from pipeline.tuning.tuner import TunerOptions
from tests.pipeline.conftest import DIGITS
from tests.support.cases import refused
from tests.support.run_records import record, step

SPACE = Space(
    parameters={
        "rate": Parameter(low=1e-4, high=1e-1, log=True),
        "batch": Parameter(low=4, high=16, step=4),
        "kind": Parameter(choices=["a", "b", True]),
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
            self.search.end(trial, "PRUNED", "worse than others")
        else:
            self.search.end(trial, "FAIL", "a loss that is not finite")
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


SETTINGS, CONFIG = (str(DIGITS / name) for name in ("settings.yaml", "pipeline.config"))
CLIP = "train_config.gradient_clipping_by_norm"
CLIPPING = Space(parameters={CLIP: Parameter(low=0.0, high=1.0)}, pruner="none")
FAKE = """
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
x = json.loads((folder / "job.json").read_text())["overrides"]["train_config.gradient_clipping_by_norm"]
run = folder / "model_run"
run.mkdir(exist_ok=True)
(folder / "model").mkdir(exist_ok=True)
(run / "validation.jsonl").write_text(json.dumps({"step": 1, "score": 1 - abs(x - 0.3)}) + "\\n")
"""


@pytest.fixture
def digits(tmp_path):
    return load_settings(SETTINGS, [f"workspace={tmp_path}/ws", f"data.path={tmp_path}"])


@pytest.fixture
def steps(tmp_path):
    """A run of the steps before Trainer."""
    made = {"example_gen": "examples", "config_gen": "pipeline_config", "data_validator": "blessing"}
    outputs = {name: {output: str(tmp_path / output)} for name, output in made.items()}
    for output in made.values():
        (tmp_path / output).mkdir()
    (tmp_path / "pipeline_config" / "pipeline.config").write_text("model {}")
    write_blessing(str(tmp_path / "blessing"), True, ["nothing stops it"])
    return record(*(step(name, outputs=found) for name, found in outputs.items()), pipeline_name="digits")


def options(trials=5):
    command = [sys.executable, "-c", FAKE]
    return TunerOptions(trials=trials, poll_seconds=0.02, command=lambda folder: [*command, folder])


def test_the_winner_becomes_a_file_of_overrides(tmp_path, digits, steps):
    found = tune(digits, CLIPPING, str(tmp_path / "out"), options(), run_steps=lambda _: steps)
    assert len(found.trials) == 5
    best = max(found.trials, key=lambda t: t.score or 0.0)
    assert found.best == best
    text = Path(found.overrides).read_text()
    assert text.startswith(f"# Trial {best.number + 1} of `detflow tune`, score {best.score}")
    written = yaml.safe_load(text)
    assert written == {"train_config.validation": {"every_steps": 220}, **best.overrides}
    job = json.loads((tmp_path / "out" / "trials" / f"{best.number:04d}" / "job.json").read_text())
    assert job["overrides"] == written, "every trial is validated"
    assert job["examples"] == str(tmp_path / "examples") and job["stop_reasons"] == ""
    again = load_settings(SETTINGS, [f"data.path={tmp_path}"], override_files=[found.overrides])
    assert again.model.override_files == [found.overrides]
    config = load_pipeline_config(CONFIG)
    assert merge_override_file(config, found.overrides) == apply_overrides(config, written) != config


def test_a_search_goes_on_and_another_is_not_mixed_with_it(tmp_path, digits, steps):
    folder = str(tmp_path / "out")
    first = tune(digits, CLIPPING, folder, options(3), run_steps=lambda _: steps)
    more = tune(digits, CLIPPING, folder, options(4), run_steps=lambda _: steps)
    assert more.trials[:3] == first.trials and len(more.trials) == 4
    write_blessing(str(tmp_path / "blessing"), False, ["no boxes", "no images"])
    tune(digits, CLIPPING, folder, options(5), run_steps=lambda _: steps)
    job = json.loads((tmp_path / "out" / "trials" / "0004" / "job.json").read_text())
    assert job["stop_reasons"] == "no boxes; no images"
    other = Space(parameters={CLIP: Parameter(low=0.0, high=2.0)}, pruner="none")
    with pytest.raises(ConfigError, match=r"space changed.*another --output"):
        tune(digits, other, folder, options(6), run_steps=lambda _: steps)


def test_what_the_config_does_not_take_is_refused_and_a_validation_of_ones_own_stays(digits, tmp_path):
    for name, parameter, message in (
        ("train_config.no_such", Parameter(low=1, high=2), "no_such"),
        ("train_config.batch_size", Parameter(choices=[4, "many"]), "batch_size"),
    ):
        refused(ConfigError, message, check_space, digits, Space(parameters={name: parameter}))
    digits = load_settings(SETTINGS, [f"data.path={tmp_path}", f"train.overrides.{CLIP}=3"])
    with pytest.raises(ConfigError, match=rf"{CLIP}: expected a field that only the search sets"):
        check_space(digits, CLIPPING)
    config = load_pipeline_config(CONFIG)
    assert validation_overrides(config) == {"train_config.validation": {"every_steps": 220}}
    for own in ({"train_config.validation": {}}, {"eval_config.eval_interval_secs": 60}):
        assert validation_overrides(apply_overrides(config, own)) == {}
