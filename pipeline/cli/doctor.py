"""The verb `doctor`: check whether a machine or a cluster meets the requirements."""

from __future__ import annotations

import argparse
import dataclasses
from typing import TYPE_CHECKING

from detection_core.errors import EXIT_DONE, EXIT_USER_ERROR
from pipeline.cli.base import Result, verb
from pipeline.cli.server import open_connection, server_options
from pipeline.tables import Page, Table

if TYPE_CHECKING:
    from pipeline.doctor.cluster import Cluster
    from pipeline.doctor.finding import Finding
    from pipeline.settings.workflow_settings import PipelineSettings


@verb("detflow doctor --cluster --settings examples/kubeflow/settings.yaml")
def doctor(arguments: argparse.Namespace) -> Result:
    """Check whether this machine, or with --cluster a cluster, meets the requirements."""
    from pipeline.doctor.finding import examine
    from pipeline.settings.settings_file import load_settings

    settings = load_settings(arguments.settings, check_files=False) if arguments.settings else None
    if arguments.cluster:
        from pipeline.doctor.cluster import CLUSTER_CHECKS

        return describe(examine(CLUSTER_CHECKS, _cluster(arguments, settings)))
    from pipeline.doctor.machine import MACHINE_CHECKS, this_machine

    workspace = settings.workspace if settings else ""
    return describe(examine(MACHINE_CHECKS, this_machine(workspace, tuple(_images(settings)))))


def _cluster(arguments: argparse.Namespace, settings: PipelineSettings | None) -> Cluster:
    from pipeline.doctor.cluster import Cluster
    from pipeline.doctor.kube import open_kube
    from pipeline.settings.step_ids import step_ids

    options = server_options(arguments, settings)
    cluster = Cluster(
        kube=open_kube(options.kube_context),
        connect=lambda: open_connection(arguments, settings),
        namespace=options.namespace,
        through_kube=not options.host,
    )
    if settings is None:
        return cluster
    kubeflow = settings.kubeflow
    return dataclasses.replace(
        cluster,
        account=kubeflow.service_account,
        claims=_claims(settings),
        images=tuple(_images(settings)) or (kubeflow.image,),
        pull_secrets=tuple(kubeflow.image_pull_secrets),
        time_zone=settings.schedule.time_zone,
        retried=tuple(step for step in step_ids() if kubeflow.task(step).retries),
    )


def _claims(settings: PipelineSettings) -> dict[str, list[str]]:
    """Return the claims of the settings, and the steps that mount each."""
    from pipeline.settings.step_ids import step_ids

    claims: dict[str, list[str]] = {}
    for step in step_ids():
        for name in settings.kubeflow.task(step).pvcs:
            claims.setdefault(name, []).append(step)
    return claims


def _images(settings: PipelineSettings | None) -> list[str]:
    """Return the images in the settings; none if the settings name only the default."""
    from pipeline.settings.kubeflow_settings import KubeflowSettings
    from pipeline.settings.step_ids import step_ids

    if settings is None:
        return []
    kubeflow = settings.kubeflow
    names = dict.fromkeys([kubeflow.image, *(kubeflow.task(step).image for step in step_ids())])
    return [name for name in names if name and name != KubeflowSettings().image]


def describe(found: list[Finding]) -> Result:
    """Return findings as text and data; a problem sets exit code 2."""
    from pipeline.doctor.finding import State

    rows: list[tuple[str, str, str]] = []
    for finding in found:
        rows.append((str(finding.state), finding.check, finding.found))
        if finding.remedy:
            rows.append(("", "", f"-> {finding.remedy}"))
    counts = {state: sum(f.state is state for f in found) for state in State}
    shown = {State.PROBLEM: "problems", State.UNKNOWN: "could not be seen", State.NOTE: "notes"}
    totals = ", ".join(f"{name}: {counts[state]}" for state, name in shown.items())
    tables = (Table(rows, header=False),) if rows else ()
    healthy = not counts[State.PROBLEM]
    return Result(
        text=Page((*tables, f"\n{totals}")),
        data={"healthy": healthy, "findings": [dataclasses.asdict(finding) for finding in found]},
        exit_code=EXIT_DONE if healthy else EXIT_USER_ERROR,
    )


VERBS = (doctor,)
