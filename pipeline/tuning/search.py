"""The space of a search, read from a file, and its trials.

An interrupted search resumes from the journal of its trials.
"""

import contextlib
import dataclasses
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from detection_core.artifacts.model_run import ValidationLine
from detection_core.bounded.plain_yaml import read_yaml
from detection_core.errors import ConfigError, one_line, shorten
from detection_core.storage import files
from pipeline.extras import require

Scalar = bool | int | float | str
_PARAMETER_KEYS = ("low", "high", "log", "step", "choices")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parameter:
    """The possible values of a field: a range of numbers, or choices.

    Attributes:
        low: lower end of the range.
        high: upper end of the range; both ends are integers, or neither.
        log: whether the range is searched on a logarithmic scale.
        step: distance of two values in the range; None: continuous.
        choices: values instead of a range, as in an override.
    """

    low: int | float | None = None
    high: int | float | None = None
    log: bool = False
    step: int | float | None = None
    choices: tuple[Scalar, ...] = ()

    @property
    def extremes(self) -> tuple[Scalar, ...]:
        """Values to check a field with: both ends of the range, or every choice."""
        if self.choices:
            return self.choices
        return tuple(end for end in (self.low, self.high) if end is not None)


class _Options(BaseModel):
    """Options of a search.

    Attributes:
        trials: total number of trainings.
        sampler: `tpe`, the tree-structured Parzen estimator, or `random`.
        pruner: ends trainings early: `median` those below the median of the others at the same validation;
            `hyperband`; `none`.
        startup_trials: trainings before the sampler uses earlier results and before pruning.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    trials: int = Field(default=20, ge=1, le=100_000)
    sampler: Literal["tpe", "random"] = "tpe"
    pruner: Literal["median", "hyperband", "none"] = "median"
    startup_trials: int = Field(default=5, ge=0)
    seed: int = Field(default=0, ge=0)


class _File(_Options):
    """The file's content."""

    parameters: dict[str, dict[str, Any]] = Field(min_length=1)


class Space(_Options):
    """A search space: field path, or short name, to possible values in the order of the file; and options."""

    parameters: dict[str, Parameter]


def load_space(path: str) -> Space:
    """Read a search-space file. Raises ConfigError naming the file and the key."""
    if not files.exists(path):
        raise ConfigError("expected a file that says what is searched, found none", where=path)
    tree = read_yaml(path, what="file of a search")
    if not isinstance(tree, dict):
        raise ConfigError("expected a mapping with the key parameters", where=path)
    try:
        given = _File.model_validate(tree)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise ConfigError(
            f"{first['msg']}, found {shorten(first.get('input'))}", where=f"{path}, {one_line(key)}"
        ) from error
    parameters = {
        name: _parameter(spec, f"{path}, parameters.{one_line(name)}")
        for name, spec in given.parameters.items()
    }
    return Space(parameters=parameters, **given.model_dump(exclude={"parameters"}))


def _parameter(spec: Mapping[str, Any], where: str) -> Parameter:
    unknown = [key for key in spec if key not in _PARAMETER_KEYS]
    if unknown:
        raise ConfigError(
            f"expected some of {', '.join(_PARAMETER_KEYS)}, found {shorten(unknown[0])}", where=where
        )
    if "choices" in spec:
        return _choices(spec, where)
    if "low" not in spec or "high" not in spec:
        raise ConfigError("expected low and high, or choices; give both ends", where=where)
    low, high = _number(spec["low"], f"{where}.low"), _number(spec["high"], f"{where}.high")
    if isinstance(low, float) or isinstance(high, float):
        low, high = float(low), float(high)
    step = None if spec.get("step") is None else _number(spec["step"], f"{where}.step")
    log = spec.get("log", False)
    if not isinstance(log, bool):
        raise ConfigError(f"expected true or false, found {shorten(log)}", where=f"{where}.log")
    if not low < high:
        raise ConfigError(f"expected more than low, which is {low}, found {high}", where=f"{where}.high")
    if log and low <= 0:
        raise ConfigError(f"expected more than 0 on a log scale, found {low}", where=f"{where}.low")
    if step is not None and (log or not 0 < step <= high - low):
        text = "no step on a log scale" if log else f"a number above 0, up to {high - low}"
        raise ConfigError(f"expected {text}, found {step}", where=f"{where}.step")
    if step is not None and isinstance(low, int) and not isinstance(step, int):
        raise ConfigError(
            f"expected a whole number, as low and high are, found {step}", where=f"{where}.step"
        )
    return Parameter(low=low, high=high, log=log, step=step)


def _choices(spec: Mapping[str, Any], where: str) -> Parameter:
    choices = spec["choices"]
    if len(spec) > 1:
        raise ConfigError("expected choices, or low and high, found both; remove one", where=where)
    if not isinstance(choices, list) or not choices or not all(isinstance(c, Scalar) for c in choices):
        text = "expected a list of values; write messages and lists as an override takes them, in quotes"
        raise ConfigError(text, where=f"{where}.choices")
    if len({(type(c), c) for c in choices}) < len(choices):
        raise ConfigError("expected each value once; remove the others", where=f"{where}.choices")
    return Parameter(choices=tuple(choices))


def _number(value: Any, where: str) -> int | float:
    """Return a number; YAML reads `1e-4`, which has no point, as text."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigError(f"expected a number, found {shorten(value)}", where=where)
    return value


JOURNAL = "trials.journal"
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
    score = trial.value if trial.state.name == "COMPLETE" else max(values, default=None)
    return TrialRecord(
        number=trial.number,
        state=_STATES.get(trial.state.name, "running"),
        score=score,
        overrides=dict(trial.params),
        reason=trial.user_attrs.get(_REASON, ""),
    )


def _suggest(trial: Any, name: str, spec: Parameter) -> Any:
    if spec.choices:
        return trial.suggest_categorical(name, list(spec.choices))
    if isinstance(spec.low, int):
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


class _quiet(warnings.catch_warnings):
    """Hide Optuna's warnings about experimental features."""

    def __enter__(self) -> Any:
        found = super().__enter__()
        warnings.simplefilter("ignore")
        return found
