"""The trials of a search, stored in a journal from which an interrupted search resumes."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from detection_core.artifacts.model_run import ValidationLine
from pipeline.extras import require
from pipeline.tuning.space import Parameter, Space

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
