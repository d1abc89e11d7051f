"""A run on an MLflow tracking server or in a local store."""

import logging
import os
import posixpath
import re
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from detection_core.loggers.base import EVAL, Logger, RunIds, Status
from detection_core.storage.scratch_folder import ScratchFolder

_logger = logging.getLogger(__name__)

_NOT_A_NAME = re.compile(r"[^/\w.\- :]")
_BATCH, _LONGEST_VALUE, _LONGEST_NAME = 100, 6000, 250
"""MLflow's limits per request, parameter and name (mlflow.utils.validation)."""
_STATUS: Mapping[Status, str] = {"finished": "FINISHED", "failed": "FAILED", "stopped": "KILLED"}


class MlflowLogger(Logger):
    """Logs to one run, which starts with the first entry; a resumed training continues its run by `ids`.

    A run in MLFLOW_RUN_ID, as Kubeflow Pipelines sets for a task, is taken instead. As in MLflow, it is for
    the first training of the process. MLflow's client itself reads MLFLOW_WORKSPACE.

    Characters that MLflow rejects in names become `_`: `mAP@.50IOU` is `mAP_.50IOU`. Histograms are skipped,
    because MLflow has none; TensorBoard's files have them.

    `options` has the tracking_uri of a server or store ("": MLFLOW_TRACKING_URI) and the run_name ("": MLflow
    chooses one). A missing experiment is created.
    """

    def __init__(self, options: Mapping[str, str], ids: RunIds) -> None:
        self._options, self._ids = options, ids
        self._client: Any = None
        self._run_id = ""

    def log_parameters(self, values: Mapping[str, str]) -> None:
        """Log parameters; those that a resumed training has already logged stay unchanged."""
        from mlflow.entities import Param

        client = self._connected()
        known = client.get_run(self._run_id).data.params
        named = {run_name(name): value[:_LONGEST_VALUE] for name, value in values.items()}
        new = [Param(name, value) for name, value in named.items() if name not in known]
        for first in range(0, len(new), _BATCH):
            client.log_batch(self._run_id, params=new[first : first + _BATCH])

    def log_scalars(self, values: Mapping[str, float], step: int, split: str) -> None:
        """Log metrics of a step."""
        from mlflow.entities import Metric

        del split  # losses and metrics have different names
        client, now = self._connected(), int(time.time() * 1000)
        metrics = [Metric(run_name(name), float(value), now, step) for name, value in values.items()]
        for first in range(0, len(metrics), _BATCH):
            client.log_batch(self._run_id, metrics=metrics[first : first + _BATCH])

    def log_images(self, images: Mapping[str, np.ndarray], step: int, split: str) -> None:
        """Log pictures of a step."""
        client = self._connected()
        for name, image in images.items():
            key = run_name(name if split == EVAL else f"{split}/{name}")
            client.log_image(self._run_id, image, key=key, step=step)

    def log_artifact(self, name: str, content: bytes) -> None:
        """Upload a file."""
        client = self._connected()
        with ScratchFolder() as scratch:
            path = os.path.join(scratch, name)
            with open(path, "wb") as f:
                f.write(content)
            client.log_artifact(self._run_id, path)

    def close(self, status: Status) -> None:
        """End the run."""
        self._connected().set_terminated(self._run_id, status=_STATUS[status])

    def _connected(self) -> Any:
        """Return the client after starting the run."""
        import mlflow

        if self._client is None:
            client = mlflow.MlflowClient(tracking_uri=self._options["tracking_uri"] or None)
            self._run_id = self._resumed(client) or self._begun(client)
            self._ids.keep("mlflow", self._run_id)
            os.environ.pop("MLFLOW_RUN_ID", None)
            self._client = client
        return self._client

    def _resumed(self, client: Any) -> str:
        from mlflow.exceptions import MlflowException

        run_id = os.environ.get("MLFLOW_RUN_ID") or self._ids.find("mlflow")
        if not run_id:
            return ""
        try:
            client.update_run(run_id, status="RUNNING")
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            _logger.warning("MLflow knows no run %s any more; a new one is begun", run_id)
            return ""
        return run_id

    def _begun(self, client: Any) -> str:
        found = client.get_experiment_by_name(self._options["experiment"])
        experiment = found.experiment_id if found else client.create_experiment(self._options["experiment"])
        tags = {"mlflow.source.name": "detflow"}
        run = client.create_run(experiment, run_name=self._options["run_name"] or None, tags=tags)
        return str(run.info.run_id)


def open_run(values: Mapping[str, str], folder: str) -> Logger:
    """Return a logger for the training in this folder."""
    return MlflowLogger(values, RunIds(folder))


def run_name(name: str) -> str:
    """Return a name that MLflow accepts: allowed characters, relative, of limited length."""
    plain = posixpath.normpath(_NOT_A_NAME.sub("_", name)).lstrip("/.")
    return plain[:_LONGEST_NAME] or "_"
