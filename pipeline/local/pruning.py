"""Remove old runs of a workspace, with the artifacts that only they refer to.

TFX takes a result from its cache only if every output still exists, so ML Metadata stays as it is.
"""

import dataclasses
import functools
import os
from collections.abc import Iterable, Iterator

from components.publishing.destination import PushDestination
from detection_core.artifacts.published import PUSHED
from detection_core.artifacts.run_info import EXECUTED, RunInfo
from detection_core.storage import files, local_lock
from pipeline.local.workspace import Workspace
from pipeline.settings.step_ids import PUSHER


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pruning:
    """What is removed: runs, oldest first, and folders of artifacts."""

    runs: tuple[RunInfo, ...]
    artifacts: tuple[str, ...]


def plan_pruning(workspace: Workspace, keep: int) -> Pruning:
    """Return what `prune` would remove; errors as there."""
    runs = workspace.runs()
    kept = runs[-keep:]  # among them a running one
    whole = [r for r in runs if r.status == "succeeded" and any(s.id == PUSHER for s in r.steps)]
    kept += [*{run.pipeline_name: run for run in whole}.values(), *_published(runs)]
    ids = {run.run_id for run in kept}
    old = tuple(run for run in runs if run.run_id not in ids)
    needed, root = _outputs(kept), os.path.realpath(workspace.artifacts)
    artifacts = [
        path
        for path in sorted(_outputs(old))
        if path.startswith(f"{root}/") and not any(f"{n}/".startswith(f"{path}/") for n in needed)
    ]
    return Pruning(runs=old, artifacts=tuple(filter(os.path.isdir, artifacts)))


def prune(workspace: Workspace, keep: int) -> Pruning:
    """Remove runs, and return what was removed; another call finishes after a crash.

    Kept are the newest runs, the newest whole and successful one of each workflow, and those that published a
    version which is still at the push destination.

    Args:
        workspace: it is locked, so an active run ends first.
        keep: number of newest runs, 1 or more.

    Raises:
        ContractError: for a damaged push destination.
    """
    with workspace.lock():
        found = plan_pruning(workspace, keep)
        # The runs go last: until then their artifacts are found again.
        for path in (*found.artifacts, *(workspace.run_dir(run.run_id) for run in found.runs)):
            aside = local_lock.temporary_name(path)
            files.rename(path, aside)  # the cache never sees a part of a folder
            files.remove_tree(aside)
    return found


def _outputs(runs: Iterable[RunInfo]) -> set[str]:
    return {os.path.realpath(path) for run in runs for step in run.steps for path in step.outputs.values()}


def _published(runs: Iterable[RunInfo]) -> Iterator[RunInfo]:
    """Yield the runs that themselves published a version that still exists."""

    @functools.cache
    def versions(destination: str) -> set[int]:
        return {version.number for version in PushDestination(destination).versions()}

    for run in runs:
        pushers = [step for step in run.steps if step.id == PUSHER and step.state == EXECUTED]
        reports = [PUSHED.find_usable(step.outputs.get("pushed_model", "")) for step in pushers]
        if any(report and report.pushed and report.version in versions(report.path) for report in reports):
            yield run
