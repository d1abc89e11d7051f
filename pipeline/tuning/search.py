"""The space of a search, read from a file, and its trials.

An interrupted search resumes from the journal of its trials.
"""

import contextlib
import dataclasses
import functools
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import pydantic

from detection_core.artifacts.model_run import ValidationLine
from detection_core.bounded.plain_yaml import parse_yaml_with_lines
from detection_core.errors import ConfigError
from detection_core.storage import files
from pipeline.extras import require
from pipeline.settings.setting_types import NOT_EMPTY, Rule, Settings, between, from_factory
from pipeline.settings.validation_errors import contradictions, locating_errors

Scalar = bool | int | float | str


def _as_number(value: Any) -> Any:
    """Convert a text to a number: YAML reads `1e-4`, which has no point, as text."""
    with contextlib.suppress(ValueError):
        return float(value) if isinstance(value, str) else value
    return value


_NUMBER = Rule(lambda value: type(value) in (int, float) and math.isfinite(value), "a number")
Number = Annotated[Any, pydantic.BeforeValidator(_as_number), _NUMBER]
_VALUES = Rule(
    lambda values: bool(values) and all(isinstance(value, Scalar) for value in values),
    "a list of values; write messages and lists as an override takes them, in quotes",
)
_EACH_ONCE = Rule(lambda values: len({(type(v), v) for v in values}) == len(values), "each value once")


class Parameter(Settings):
    """The possible values of a field: a range of numbers, or choices.

    Attributes:
        low: lower end of the range.
        high: upper end of the range.
        log: whether the range is searched on a logarithmic scale.
        step: distance of two values in the range; None: continuous.
        choices: values instead of a range, as in an override.
    """

    low: Number = None
    high: Number = None
    log: bool = False
    step: Number = None
    choices: Annotated[list[Any], _VALUES, _EACH_ONCE] = from_factory(list)

    @property
    def is_whole(self) -> bool:
        """Whether the range has integers only: both ends are."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def extremes(self) -> list[Scalar]:
        """Values to check a field with: both ends of the range, or every choice."""
        return self.choices or [self.low, self.high]

    @pydantic.model_validator(mode="after")
    def _check(self) -> "Parameter":
        problem = self._range_problem() if not self.choices else None
        if self.choices and len(self.model_fields_set) > 1:
            problem = "", "expected choices, or low and high, found both; remove one"
        if problem:
            raise contradictions([problem])
        return self

    def _range_problem(self) -> tuple[str, str] | None:
        low, high, step = self.low, self.high, self.step
        if low is None or high is None:
            return "", "expected low and high, or choices; give both ends"
        if not low < high:
            return "high", f"expected more than low, which is {low}, found {high}"
        if self.log and low <= 0:
            return "low", f"expected more than 0 on a log scale, found {low}"
        if step is not None and (self.log or not 0 < step <= high - low):
            text = "no step on a log scale" if self.log else f"a number above 0, up to {high - low}"
            return "step", f"expected {text}, found {step}"
        if isinstance(step, float) and self.is_whole:
            return "step", f"expected a whole number, as low and high are, found {step}"
        return None


class Space(Settings):
    """A search space, and options of a search.

    Attributes:
        parameters: field path, or short name, to possible values in the order of the file.
        trials: total number of trainings.
        sampler: `tpe`, the tree-structured Parzen estimator, or `random`.
        pruner: ends trainings early: `median` those below the median of the others at the same validation;
            `hyperband`; `none`.
        startup_trials: trainings before the sampler uses earlier results and before pruning.
    """

    parameters: Annotated[dict[str, Parameter], NOT_EMPTY]
    trials: Annotated[int, between(1, 100_000)] = 20
    sampler: Literal["tpe", "random"] = "tpe"
    pruner: Literal["median", "hyperband", "none"] = "median"
    startup_trials: Annotated[int, between(0, 100_000)] = 5
    seed: Annotated[int, between(0, 2**63 - 1)] = 0


def load_space(path: str) -> Space:
    """Read a search-space file. Raises ConfigError naming the file, the line and the key."""
    tree, locations = parse_yaml_with_lines(files.read_user_text(path, what="file of a search"), path)
    if not isinstance(tree, dict):
        raise ConfigError("expected a mapping with the key parameters", where=path)
    with locating_errors(Space, locations):
        return Space.model_validate(tree)


JOURNAL = "trials.journal"
# Hides Optuna's warnings about experimental features.
_quiet = functools.partial(warnings.catch_warnings, action="ignore")
_STUDY = "detflow"
_REASON = "reason"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrialRecord:
    """The record of a trial.

    Attributes:
        number: from 0.
        state: `complete`, `pruned`, `failed` or `running`.
        score: its best score; None without one.
        overrides: parameter to value.
        reason: why it ended early.
    """

    number: int
    state: str
    score: float | None
    overrides: Mapping[str, Any]
    reason: str = ""


class Trial:
    """An active trial."""

    def __init__(self, trial: Any, space: Space) -> None:
        self._trial = trial
        self.number: int = trial.number
        self.overrides = {name: _suggest(trial, name, spec) for name, spec in space.parameters.items()}
        self.score: float | None = None  # the best one so far
        self._seen = 0

    def report(self, lines: Sequence[ValidationLine]) -> None:
        """Report all validations so far, in the order of their steps."""
        for number, line in enumerate(lines):
            if line.score is None:
                continue
            self.score = line.score if self.score is None else max(self.score, line.score)
            if number >= self._seen:
                with _quiet():  # the journal already has the first ones of a resumed trial
                    self._trial.report(self.score, number)
        self._seen = max(self._seen, len(lines))

    def is_hopeless(self) -> bool:
        """Tell whether the pruner would end the trial."""
        return bool(self._seen) and self.score is not None and bool(self._trial.should_prune())


class Search:
    """The trials of a search, managed by Optuna.

    Args:
        folder: folder of the journal; only one process may use it.

    Raises:
        ConfigError: when Optuna is not installed.
    """

    def __init__(self, space: Space, folder: str) -> None:
        require("tune", "detflow tune")
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._space = space
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, JOURNAL)
        # After a timeout, a file-handle lock of a killed process can be taken over; a link lock cannot.
        storage = JournalStorage(JournalFileBackend(path, lock_obj=JournalFileOpenLock(path)))
        with _quiet():
            self._study = optuna.create_study(
                storage=storage,
                study_name=_STUDY,
                direction="maximize",
                load_if_exists=True,
                pruner=_pruner(space),
            )

    def records(self) -> list[TrialRecord]:
        """Return every trial so far, by number."""
        return [_record(trial) for trial in self._study.get_trials(deepcopy=False)]

    @property
    def best(self) -> TrialRecord | None:
        """The complete trial with the highest score; the first one of a tie."""
        scored = [r for r in self.records() if r.state == "complete" and r.score is not None]
        return max(scored, key=lambda r: (r.score, -r.number), default=None)

    def interrupted(self) -> list[Trial]:
        """Return the running trials of an earlier process, which has ended."""
        from optuna.trial import Trial as OptunaTrial

        found = []
        for trial in self._study.get_trials(deepcopy=False):
            if not trial.state.is_finished():
                with _quiet():  # a killed process may have saved only some of the values
                    self._study.sampler = _sampler(self._space, trial.number)
                    found.append(Trial(OptunaTrial(self._study, trial._trial_id), self._space))
        return found

    def ask(self) -> Trial:
        """Start a trial with values from the sampler."""
        number = len(self._study.get_trials(deepcopy=False))
        with _quiet():
            # The seed includes the trial's number, so that a resumed search draws the same values.
            self._study.sampler = _sampler(self._space, number)
            return Trial(self._study.ask(), self._space)

    def complete(self, trial: Trial) -> None:
        """Mark a trial as complete."""
        if trial.score is None:
            self.end(trial, "FAIL", "no validation has a score")
        else:
            self._study.tell(trial._trial, trial.score)

    def end(self, trial: Trial, state: Literal["PRUNED", "FAIL"], reason: str) -> None:
        """Mark a trial as pruned; or as failed, for a reason other than its values."""
        from optuna.trial import TrialState

        trial._trial.set_user_attr(_REASON, reason)
        with _quiet():
            self._study.tell(trial._trial, state=TrialState[state])


_STATES = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}


def _record(trial: Any) -> TrialRecord:
    values = list(trial.intermediate_values.values())
    return TrialRecord(
        number=trial.number,
        state=_STATES.get(trial.state.name, "running"),
        score=trial.value if trial.state.name == "COMPLETE" else max(values, default=None),
        overrides=dict(trial.params),
        reason=trial.user_attrs.get(_REASON, ""),
    )


def _suggest(trial: Any, name: str, spec: Parameter) -> Any:
    if spec.choices:
        return trial.suggest_categorical(name, list(spec.choices))
    if spec.is_whole:
        return trial.suggest_int(name, spec.low, spec.high, step=spec.step or 1, log=spec.log)
    return trial.suggest_float(name, spec.low, spec.high, step=spec.step, log=spec.log)


def _sampler(space: Space, number: int) -> Any:
    import optuna

    seed = (space.seed * 1_000_003 + number) % 2**32
    if space.sampler == "random":
        return optuna.samplers.RandomSampler(seed=seed)
    # A running trial counts as a bad one, so that workers do not all try the same values.
    return optuna.samplers.TPESampler(
        seed=seed, n_startup_trials=space.startup_trials, multivariate=True, constant_liar=True
    )


def _pruner(space: Space) -> Any:
    import optuna

    if space.pruner == "hyperband":
        return optuna.pruners.HyperbandPruner()
    if space.pruner == "none":
        return optuna.pruners.NopPruner()
    return optuna.pruners.MedianPruner(n_startup_trials=space.startup_trials, n_warmup_steps=1)
