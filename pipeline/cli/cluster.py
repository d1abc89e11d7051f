"""Verbs for Kubeflow Pipelines: compile, submit, and verbs on a server's runs."""

from __future__ import annotations

import argparse
import dataclasses
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from detection_core.errors import ConfigError
from detection_core.storage import files
from pipeline.cli import workflow
from pipeline.cli.base import Group, Result, Verb, given_settings, verb
from pipeline.cli.server import open_connection
from pipeline.steps import StepStatus
from pipeline.tables import Page, Table

if TYPE_CHECKING:
    from pipeline.kubeflow.connection import Connection
    from pipeline.kubeflow.runs import RunState
    from pipeline.kubeflow.submission import PipelineVersion, Source


_logger = logging.getLogger(__name__)
EXIT_RUN_FAILED, EXIT_RUN_CANCELLED = 3, 4


def publish_source(
    arguments: argparse.Namespace, source: Source, defaults: Mapping[str, Any] | None = None
) -> tuple[Connection, PipelineVersion, dict[str, Any]]:
    """Publish a pipeline version after all checks; return connection, version and checked parameters.

    The arguments have `PARAM`, `EXPERIMENT` and `SERVER`. `defaults` has values of parameters that `--param`
    does not set.

    Raises:
        ConfigError: for an invalid parameter, placeholder or name.
        ClusterError: from the server.
    """
    from pipeline.kubeflow.package import check_placeholders, check_schedule_time
    from pipeline.kubeflow.submission import check_names, publish
    from pipeline.run_parameters import check_parameters, parse_parameters

    declared, path = source.package.parameters, source.path
    given = {**(defaults or {}), **parse_parameters(declared, arguments.parameters)}
    values = check_parameters(declared, given, path)
    check_placeholders(values, source.package.filled, path)
    check_names(source.package.name, experiment_of(arguments, source))
    connection = open_connection(arguments, source.settings)
    check_schedule_time(connection, values, source.package.timed, path)
    return connection, publish(connection, source.package), values


@verb("detflow submit examples/digits/settings.yaml --param train_steps=500 --wait")
def submit(arguments: argparse.Namespace) -> Result:
    """Run a workflow on a Kubeflow Pipelines server."""
    from pipeline.kubeflow.submission import default_run_name, ensure_experiment, open_source, start_run

    with open_source(arguments.file, arguments.overrides, arguments.override_files) as source:
        connection, version, values = publish_source(arguments, source)
    found = "is there already" if version.reused else "uploaded"
    _logger.info("pipeline | version %s %s", version.name, found)
    run_id = start_run(
        connection,
        version,
        arguments.run_name or default_run_name(source.package.name),
        experiment_id=ensure_experiment(connection, experiment_of(arguments, source)),
        parameters=values,
        service_account=arguments.service_account or source.kubeflow.service_account,
    )
    return follow(arguments, connection, run_id, version)


def experiment_of(arguments: argparse.Namespace, source: Source) -> str:
    """Return the experiment's name: from the flag, the settings or the pipeline."""
    return arguments.experiment or source.kubeflow.experiment or source.package.name


def follow(
    arguments: argparse.Namespace,
    connection: Connection,
    run_id: str,
    version: PipelineVersion | None = None,
    before: RunState | None = None,
) -> Result:
    """Report a submitted run, or one retried after the state `before`; with `--wait` wait for its end."""
    from pipeline.kubeflow.runs import read_run, wait_for
    from pipeline.kubeflow.step_log import step_log

    link = connection.link(f"runs/details/{run_id}")
    _logger.info("run | %s %s", run_id, link)
    if not arguments.wait:
        state = read_run(connection, run_id)
        return Result(text=f"run {run_id}\n{link}", data=_data(state, version))
    try:
        state = wait_for(
            connection, run_id, poll_seconds=arguments.poll, limit_seconds=arguments.wait_limit, before=before
        )
    except KeyboardInterrupt:
        _logger.warning("run | %s continues; `detflow runs cancel %s` stops it", run_id, run_id)
        raise
    if state.good or state.state == "cancelled":
        code = 0 if state.good else EXIT_RUN_CANCELLED
        return Result(text=f"run {run_id} {state.state}\n{link}", data=_data(state, version), exit_code=code)
    failed = state.failed_step
    log = step_log(connection, run_id, failed) if failed else ""
    lines = [f"run {run_id} failed: {_failure(state, log)}", link]
    if failed and log:
        lines += ["", f"the end of the log of {failed.name}:", log]
    _logger.error("run | %s", lines[0])
    return Result(text="\n".join(lines), data=_data(state, version), exit_code=EXIT_RUN_FAILED)


@verb("detflow runs list examples/digits/settings.yaml", name="list")
def list_runs(arguments: argparse.Namespace) -> Result:
    """List the runs of a workspace; without one, the newest on the server."""
    if arguments.workspace:
        return workflow.runs(arguments)
    from pipeline.kubeflow.runs import list_runs as listed

    states = listed(open_connection(arguments), arguments.limit)
    rows = [("run", "name", "started", "state", "schedule")]
    rows += [(s.run_id, s.name, s.started, s.state, s.schedule_id or "-") for s in states]
    return Result(text=Table(rows) if states else "no runs yet", data=[_data(s) for s in states])


@verb("detflow runs show RUN_ID --host http://localhost:8080", name="show")
def show_run(arguments: argparse.Namespace) -> Result:
    """Show a run on the server and the states of its steps."""
    from pipeline.kubeflow.runs import read_run
    from pipeline.kubeflow.step_log import step_log

    connection = open_connection(arguments)
    state = read_run(connection, arguments.run_id)
    failed = state.failed_step
    # The server reports no error of a failed driver; its log has the cause.
    log = step_log(connection, state.run_id, failed) if failed and failed.driver else ""
    return _describe(state, log)


@verb("detflow runs cancel RUN_ID --host http://localhost:8080", name="cancel")
def cancel_run(arguments: argparse.Namespace) -> Result:
    """Stop a run on the server."""
    from pipeline.kubeflow.runs import cancel

    return _describe(cancel(open_connection(arguments), arguments.run_id))


@verb("detflow runs retry RUN_ID --wait --host http://localhost:8080", name="retry")
def retry_run(arguments: argparse.Namespace) -> Result:
    """Repeat the steps of a run on the server that failed; the others are kept."""
    from pipeline.kubeflow.runs import retry

    connection = open_connection(arguments)
    return follow(arguments, connection, arguments.run_id, before=retry(connection, arguments.run_id))


@verb("detflow runs log RUN_ID --step trainer --host http://localhost:8080", name="log")
def show_log(arguments: argparse.Namespace) -> Result:
    """Print the end of a step's log, where the server keeps it."""
    from pipeline.kubeflow.runs import read_run
    from pipeline.kubeflow.step_log import no_log, step_log

    connection = open_connection(arguments)
    state = read_run(connection, arguments.run_id)
    steps = {s.name: s for s in state.steps}
    name = arguments.step or (state.failed_step.name if state.failed_step else "")
    if name not in steps:
        known = f"the run has {', '.join(steps)}" if steps else "the server does not tell the run's steps"
        raise ConfigError(f"expected a step with --step, found {name or 'none'}; {known}", where=state.run_id)
    if arguments.lines < 1:
        raise ConfigError(f"expected 1 or more, found {arguments.lines}", where="--lines")
    log = step_log(connection, state.run_id, steps[name], launcher=arguments.launcher, lines=arguments.lines)
    text = log or no_log(steps[name], state.link)
    return Result(text=text, data={"run": state.run_id, "step": name, "log": log})


def _failure(state: RunState, log: str) -> str:
    """Describe why a run failed, with the cause from the driver's log."""
    from pipeline.kubeflow.step_log import error_in

    failed = state.failed_step
    cause = error_in(log) if failed and failed.driver else ""
    return f"{state.failure()}: {cause}" if cause else state.failure()


def _describe(state: RunState, log: str = "") -> Result:
    lines: list[str | Table] = [f"{state.run_id}  {state.name}  {state.state}", state.link]
    if state.failure():
        lines.append(_failure(state, log))
    lines += [state.where_to_look(s) for s in state.steps if s.state == StepStatus.WAITING]
    if state.steps:
        rows = [("step", "state", "seconds", "attempts")]
        for s in state.steps:
            name = "  " * s.depth + s.name.rpartition("/")[2]
            seconds = "-" if s.seconds is None else f"{s.seconds:.0f}"
            rows.append((name, s.state, seconds, str(s.attempts or "-")))
        lines += ["", Table(rows if any(s.attempts > 1 for s in state.steps) else [r[:3] for r in rows])]
    return Result(text=Page(tuple(lines)), data=_data(state))


def _data(state: RunState, version: PipelineVersion | None = None) -> dict[str, Any]:
    return dataclasses.asdict(state) | ({"version": dataclasses.asdict(version)} if version else {})


@verb("detflow compile examples/digits/settings.yaml -o build/digits/pipeline.yaml", name="compile")
def compile_workflow(arguments: argparse.Namespace) -> Result:
    """Write a workflow as a Kubeflow Pipelines package (YAML) that a cluster runs."""
    from pipeline.kubeflow.kfp_backend import render_pipeline

    # Other files that the settings name are on the cluster; only the pipeline.config is read here.
    settings = given_settings(arguments, check_files=False)
    files.write_text(arguments.output, render_pipeline(settings))
    return Result(
        text=arguments.output, data={"pipeline": arguments.output, "image": settings.kubeflow.image}
    )


VERBS: tuple[Verb | Group, ...] = (
    compile_workflow,
    submit,
    Group(
        name="runs",
        summary="List and prune the runs of a workspace; list, show, stop and repeat those on a server.",
        default="list",
        alone=("cancel", "retry"),
        verbs=(list_runs, show_run, show_log, cancel_run, retry_run, workflow.prune),
    ),
)
