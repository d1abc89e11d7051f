"""A pod that trains: where the other ones are, how far the training is, and results on an object store."""

import dataclasses
import datetime
import json
import logging
import os
import ssl
import time
import urllib.request
from pathlib import Path
from typing import Any

from component_specs import TrainerJob
from component_specs.annotations import job_fields
from components.trainer.nodes.job_manifest import PORT, WORKERS
from components.trainer.run import run
from detection_core.loggers.base import Logger
from detection_core.loggers.open_loggers import BackgroundLogger
from detection_core.progress import ProgressUpdate, Reporter, default_reporter
from detection_core.storage import files
from detection_core.storage.scratch_folder import ScratchFolder
from detection_core.training.distribution import this_worker

_EVERY = 5.0
"""Seconds between two reports, as in Kubeflow's SDK."""
_SECONDS = 10.0


def set_tf_config() -> None:
    """Set TF_CONFIG in a pod of a TrainJob; the training operator sets it in those of a TFJob.

    JobSet names a pod JOBSET-REPLICATEDJOB-JOBINDEX-PODINDEX.JOBSET (its API, `Network`). The runtime passes
    the pod's labels as variables; Kubernetes adds JOB_COMPLETION_INDEX to pods of an indexed Job.
    """
    jobset = os.environ.get("JOBSET_NAME", "")
    if not jobset or "TF_CONFIG" in os.environ:
        return
    group = f"{jobset}-{os.environ['REPLICATED_JOB_NAME']}-0"
    addresses = [f"{group}-{place}.{jobset}:{PORT}" for place in range(int(os.environ[WORKERS]))]
    task = {"type": "worker", "index": int(os.environ["JOB_COMPLETION_INDEX"])}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": task})


def train_in_pod(job: TrainerJob) -> dict[str, Any]:
    """Train as `run` does; the chief then copies outputs to those places that are on an object store.

    TensorFlow writes a SavedModel to this machine alone.
    """
    if this_worker().count > 1:
        # It logs each reduction that it traces, hundreds of lines.
        logging.getLogger("tensorflow").setLevel(logging.WARNING)
    places: dict[str, str] = {name: getattr(job, name) for name in job_fields(TrainerJob).outputs}
    remote = {name: path for name, path in places.items() if files.is_remote(path)}
    with ScratchFolder() as folder:
        local: dict[str, Any] = {name: files.join(folder, name) for name in remote}
        properties = run(dataclasses.replace(job, **local), progress=progress_reporter())
        if this_worker().is_chief:
            for name, path in remote.items():
                files.copy_tree(local[name], path)
    return properties


def progress_reporter() -> Reporter | None:
    """Return a reporter that tells Kubeflow Trainer, too; None where it does not ask for reports."""
    url = os.environ.get("KUBEFLOW_TRAINER_SERVER_URL", "")
    if not url or not this_worker().is_chief:
        return None
    show, status = default_reporter(), BackgroundLogger(_TrainJobStatus(url), "Kubeflow Trainer")
    last = -_EVERY

    def report(update: ProgressUpdate) -> None:
        nonlocal last
        show(update)
        if update.job == "train" and (update.finished or time.monotonic() - last >= _EVERY):
            last = time.monotonic()
            status.post(update)
            if update.finished:
                status.close("finished")

    return report


class _TrainJobStatus(Logger):
    """Posts `status.trainerStatus` of the TrainJob (Kubeflow Trainer, proposal 2779)."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._token = Path(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"])
        self._context = ssl.create_default_context(cafile=os.environ["KUBEFLOW_TRAINER_SERVER_CA_CERT"])

    def post(self, update: ProgressUpdate) -> None:
        """Post one update."""
        numbers = {name: v for name, v in update.details.items() if not isinstance(v, str)}
        status: dict[str, Any] = {
            "metrics": [{"name": name[:64], "value": f"{v:.6g}"} for name, v in numbers.items()],
            "lastUpdatedTime": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        if update.total:
            status["progressPercentage"] = 100 * update.done // update.total
        if update.eta_seconds >= 0:
            status["estimatedRemainingSeconds"] = round(update.eta_seconds)
        request = urllib.request.Request(
            self._url,
            data=json.dumps({"trainerStatus": status}).encode(),
            headers={
                "Authorization": f"Bearer {self._token.read_text().strip()}",
                "Content-Type": "application/json",
            },
        )
        urllib.request.urlopen(request, timeout=_SECONDS, context=self._context).close()
