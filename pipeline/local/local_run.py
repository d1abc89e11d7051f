"""One local run of a workflow."""

import contextlib
import dataclasses
import datetime
import importlib
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from component_specs.kfp_outputs import encode_results
from detection_core.artifacts.run_info import LOG_FILE, SETTINGS_FILE, RunInfo, StepInfo
from detection_core.storage import files
from detection_core.training.kernels import use_onednn
from detection_core.training.memory import keep_host_memory
from pipeline.console import file_log, native_output_to
from pipeline.dag import before, build_dag
from pipeline.extras import EXTRAS
from pipeline.interruption import interrupted_by
from pipeline.local.workspace import Workspace
from pipeline.run_checks import check_step, refuse_placeholders, run_checks
from pipeline.run_parameters import CHECKER, set_parameters
from pipeline.settings.settings_file import format_settings
from pipeline.settings.workflow_settings import PipelineSettings
from pipeline.step_configs import check_steps, training_config
from pipeline.steps import Dag

_logger = logging.getLogger(__name__)

SECONDS = 20.0
"""Minimum seconds between two versions of the page."""
_SHARE = 0.05
"""Maximum share of the run's time for writing the page."""


class LiveReport:
    """Writes a page repeatedly during a `with` block, in a thread.

    Args:
        write: writes the page; its errors end the updates, not the run.
        seconds: minimum interval; longer if writing is slow.
    """

    def __init__(self, write: Callable[[], None], *, seconds: float = SECONDS) -> None:
        self._write, self._seconds = write, seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="report", daemon=True)

    def __enter__(self) -> "LiveReport":
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Stop after the version that is being written."""
        self._ended.set()
        self._thread.join()

    def _follow(self) -> None:
        pause = self._seconds / 4  # so that the page does not delay the end of a short run
        while not self._ended.wait(pause):
            began = time.monotonic()
            try:
                self._write()
            except Exception:
                _logger.exception("report | cannot be kept up to date; it is written when the run has ended")
                return
            pause = max(self._seconds, (time.monotonic() - began) / _SHARE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of one run.

    Attributes:
        parameters: names from `pipeline.run_parameters` to checked values.
        scheduled_time: RFC 3339 time of the schedule's slot; empty: none.
        until: id of the step before which the run ends, after the steps that it needs; "": the whole
            workflow.
        write_report: writes the report to a path, during the run and at its end; None: no report.
        observe: called with the run when it begins and at each change.
    """

    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    scheduled_time: str = ""
    until: str = ""
    write_report: Callable[[RunInfo, str], None] | None = None
    observe: Callable[[RunInfo], None] = lambda run: None


def run_locally(settings: PipelineSettings, options: RunOptions | None = None) -> RunInfo:
    """Run the workflow: finished steps come from the cache, the rest is executed in order.

    run.json is written after every step. The report is written at the end, also after a failure.

    Returns:
        The run, with status `succeeded`. A model refused by a gate is a success; `pusher` gives the reason.

    Raises:
        DetectionError: from settings, configs, data or a step.
        Exception: any exception of a crashing step.
    """
    keep_host_memory()
    use_onednn()
    options = options or RunOptions()
    dag = build_dag(settings)
    if not options.parameters.get("train_steps"):
        check_steps(settings, training_config(settings, quantize=False))
    steps = set_parameters([check_step(settings), *dag.steps], options.parameters)
    refuse_placeholders(steps)
    dag = dataclasses.replace(dag, steps=tuple(s for s in steps if s.id != CHECKER))
    dag = before(dag, options.until) if options.until else dag
    workspace = Workspace(settings.workspace)
    with workspace.lock():
        run = _Run(settings, dag, workspace, options)
        log = os.path.join(workspace.run_dir(run.info.run_id), LOG_FILE)
        with file_log(log), native_output_to(log):
            return run.execute()


@dataclasses.dataclass
class _Run:
    """State of an active run: its RunInfo, saved after every step."""

    settings: PipelineSettings
    dag: Dag
    workspace: Workspace
    options: RunOptions

    def __post_init__(self) -> None:
        steps = [StepInfo(id=s.id, component=s.component, state="not run") for s in self.dag.steps]
        self.info = RunInfo(
            run_id=self.workspace.new_run_id(),
            pipeline_name=self.settings.name,
            started=_now(),
            finished="",
            status="running",
            settings_text=format_settings(self.settings),
            workspace=self.settings.workspace,
            steps=tuple(steps),
            parameters=dict(self.options.parameters),
            scheduled_time=self.options.scheduled_time,
        )
        self._keep()
        folder = self.workspace.run_dir(self.info.run_id)
        files.write_text(os.path.join(folder, SETTINGS_FILE), self.info.settings_text)

    def execute(self) -> RunInfo:
        _logger.info("run | %s %s in %s", self.settings.name, self.info.run_id, self.settings.workspace)
        try:
            checks = self._checks()
            self._keep(checks=encode_results(CHECKER, checks))
            backend = "plain_backend" if EXTRAS["tfx"].missing() else "tfx_backend"
            run_dag = importlib.import_module(f"pipeline.local.{backend}").run_dag
            with self._live_report():
                run_dag(self.dag, checks, self.workspace, self.info.run_id, self._observe)
        except BaseException as e:
            try:
                self._finish("stopped" if interrupted_by(e) else "failed")
            except OSError:
                # Keep the first error: on a full disk, writing run.json fails too.
                _logger.exception("run | its end could not be recorded in %s", self.settings.workspace)
            raise
        self._finish("succeeded")
        return self.info

    def _checks(self) -> Mapping[str, Any]:
        (checker,) = set_parameters([check_step(self.settings)], self.options.parameters)
        return run_checks(
            self.settings,
            **checker.parameters,
            scheduled_time=self.options.scheduled_time or self.info.started,
            run_id=self.info.run_id,
        )

    def _observe(self, step: StepInfo) -> None:
        steps = {s.id: s for s in self.info.steps} | {step.id: step}
        self._keep(steps=tuple(steps.values()))
        # Count by execution order, which may differ from the list for independent steps.
        number = sum(s.state != "not run" or s.id == step.id for s in steps.values())
        how = "interrupted after" if step.state == "not run" else f"{step.state} in"
        ended = "" if step.state == "running" else f" {how} {step.seconds:.1f} s"
        _logger.info("step | %d/%d %s%s", number, len(steps), step.id, ended)

    def _keep(self, **changes: Any) -> None:
        self.info = dataclasses.replace(self.info, **changes)
        self.options.observe(self.info)
        self.workspace.write_info(self.info)

    def _finish(self, status: str) -> None:
        self._keep(status=status, finished=_now())
        if self.options.write_report is None:
            return
        try:
            self.options.write_report(self.info, self.workspace.report_path(self.info.run_id))
        except Exception:
            # Never fail the run because its report failed.
            _logger.exception("report | could not be written; `detflow report` tries again")

    def _live_report(self) -> contextlib.AbstractContextManager[Any]:
        write = self.options.write_report
        if write is None:
            return contextlib.nullcontext()
        return LiveReport(lambda: write(self.info, self.workspace.report_path(self.info.run_id)))


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
