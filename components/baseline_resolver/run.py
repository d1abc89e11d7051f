"""BaselineResolver: the deployed detector, or an absent artifact on the first run."""

import logging
import os

from component_specs import BaselineResolverJob
from components.publishing.destination import PushDestination
from components.runtime.bind import ABSENT
from detection_core.storage import files

_logger = logging.getLogger(__name__)


def run(job: BaselineResolverJob) -> None:
    """Copy the baseline's SavedModel to `baseline/Format-Serving`, or mark the artifact as absent.

    If the job's version was pruned or rolled back meanwhile, copy the deployed one.

    Raises:
        ContractError: when neither exists.
    """
    if not job.baseline_version:
        files.write_text(os.path.join(job.baseline, ABSENT), "")
        _logger.info("baseline | none is deployed at %s", job.push_destination)
        return
    with files.atomic_dir(os.path.join(job.baseline, "Format-Serving")) as folder:
        version = PushDestination(job.push_destination).fetch(int(job.baseline_version), folder)
    _logger.info("baseline | version %s", version.number)
