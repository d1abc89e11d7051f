"""BaselineResolver: the deployed detector, or an absent artifact on the first run."""

from __future__ import annotations

import logging
import os

from component_specs import BaselineResolverJob
from components._runtime.bind import ABSENT
from components.publishing.destination import PushDestination
from detection_core import files
from detection_core.errors import ContractError

_log = logging.getLogger(__name__)


def run(job: BaselineResolverJob) -> None:
    """Copy the baseline's SavedModel to `baseline/Format-Serving`, or mark the artifact as absent.

    Raises:
        ContractError: when the version named in the job is not at the destination.
    """
    if not job.baseline_version:
        files.write_text(os.path.join(job.baseline, ABSENT), "")
        _log.info("baseline | none is deployed at %s", job.push_destination)
        return
    source = PushDestination(job.push_destination).saved_model_dir(int(job.baseline_version))
    if not files.is_dir(source):
        raise ContractError(
            f"expected version {job.baseline_version} at the push destination, found no such folder; "
            "run again to resolve the version that is deployed now",
            where=source,
        )
    with files.atomic_dir(os.path.join(job.baseline, "Format-Serving")) as folder:
        files.copy_tree(source, folder)
    _log.info("baseline | version %s", job.baseline_version)
