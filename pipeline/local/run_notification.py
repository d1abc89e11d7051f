"""Notifications of local runs."""

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterator

from components.notifier.notification import Notification, notify
from detection_core.artifacts.run_info import CACHED, FAILED, RunInfo
from pipeline.interruption import interrupted_by
from pipeline.local.workspace import Workspace
from pipeline.settings.step_ids import EVALUATOR, PUSHER
from pipeline.settings.workflow_settings import PipelineSettings

_logger = logging.getLogger(__name__)


@contextlib.contextmanager
def notifying(settings: PipelineSettings, *, scheduled: bool) -> Iterator[Callable[[RunInfo], None]]:
    """Notify of a local run at the end of a `with` block, if the settings ask for it.

    The block passes the run's states to the yielded function. A run that cannot begin is reported only if
    it is scheduled: otherwise a person reads the error. An interrupted run is not reported.
    """
    states: list[RunInfo] = []
    try:
        yield states.append
    except BaseException as error:
        if not interrupted_by(error) and (states or scheduled):
            failed = [step.id for run in states[-1:] for step in run.steps if step.state == FAILED]
            _notify(settings, states, ": ".join([*failed, type(error).__name__, str(error)]))
        raise
    _notify(settings, states)


def _notify(settings: PipelineSettings, states: list[RunInfo], error: str = "") -> None:
    options = settings.notify.model_dump(exclude={"secret"})
    if not options["webhook_env"]:
        return
    run_id = states[-1].run_id if states else ""
    report = Workspace(settings.workspace).report_path(run_id) if run_id else ""
    told = Notification(pipeline=settings.name, run_id=run_id, report=report)
    steps = {step.id: step for run in states[-1:] for step in run.steps}
    try:
        if error:
            told = dataclasses.replace(told, verdict="failed", reasons=(error,))
        elif steps[PUSHER].state != CACHED:  # a result from the cache is no news
            pushed, measured = steps[PUSHER].outputs, steps[EVALUATOR].outputs
            told = told.with_outcome(pushed["pushed_model"], measured["evaluation"])
        notify(told, **options)
    except Exception:
        # Never fail the run because nobody was notified.
        _logger.exception("notify | nobody was notified")
