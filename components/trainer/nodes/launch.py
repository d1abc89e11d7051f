"""Train on several pods: create a TrainJob or TFJob, follow it, and take its results."""

import dataclasses
import hashlib
import logging
import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from component_specs import TrainerJob
from component_specs.annotations import encode_parameters, job_fields
from component_specs.trainer import TrainingNodes
from components.trainer.nodes.job_manifest import KINDS, JobKind
from components.trainer.nodes.kubernetes_api import KubernetesApi, KubernetesError
from detection_core.artifacts.model_run import TRAIN_REPORT
from detection_core.errors import ModelError
from detection_core.storage import files
from detection_core.training.stop_signal import StopSignal

_logger = logging.getLogger(__name__)

_POLL_SECONDS = 2.0
_WAITING_SECONDS = 60.0
_READY = "READY"


def train_on_nodes(job: TrainerJob, nodes: TrainingNodes) -> dict[str, Any]:
    """Train in pods of the cluster as `run` does in this one, and return the same.

    They read copies of the inputs from `work_dir`, which must be on storage that they all reach, and write
    there. A retried step finds the running job by its name, and goes on with it. Where the step is stopped,
    it deletes the job; the next training resumes from the last checkpoint.

    Raises:
        KubernetesError: if the API of the cluster can't be reached or refuses the job.
        ModelError: if the training fails.
    """
    api, kind = KubernetesApi(), KINDS[nodes.kind]
    pods = f"/api/v1/namespaces/{api.namespace}/pods"
    # Kubernetes cuts a long name in HOSTNAME.
    pod_name = os.environ.get("KFP_POD_NAME") or socket.gethostname()
    pod = api.get(f"{pods}/{pod_name}")
    if pod is None:
        raise KubernetesError("expected the pod of this step, found none; set KFP_POD_NAME", where=pod_name)
    # The folder of an output is the same in each retry of a step, and another one in each run.
    name = f"detflow-{hashlib.sha256(job.model.encode()).hexdigest()[:12]}"
    training = _Training(api, kind, name, pods)
    folders = files.join(job.work_dir, "nodes", api.namespace, kind.plural)
    folder = files.join(folders, name)
    for other in files.list_matching(folders, "*"):
        if other != folder and training.has_left(other):
            files.remove_tree(other)
    shared = _share(job, folder)
    with StopSignal(at_once=True):
        try:
            training.start(kind.manifest(name, nodes, pod, _arguments(shared)))
            training.follow()
        except (SystemExit, KeyboardInterrupt):
            _logger.warning("%s %s | deleting it, as this step was stopped", nodes.kind, name)
            training.delete()
            raise
    for output in job_fields(TrainerJob).outputs:
        files.copy_tree(getattr(shared, output), getattr(job, output))
    files.remove_tree(folder)
    report = TRAIN_REPORT.read(job.model_run)
    return {"steps": report.steps, "parameters": report.parameters, "started_from": report.started_from}


def _share(job: TrainerJob, folder: str) -> TrainerJob:
    """Copy inputs on this pod's disk to a folder that all pods see, once, and place the outputs there."""
    fields, ready = job_fields(TrainerJob), files.join(folder, _READY)
    paths = {name: path for name in fields.inputs if (path := getattr(job, name))}
    moved: dict[str, Any] = {n: files.join(folder, n) for n, p in paths.items() if not files.is_remote(p)}
    if not files.exists(ready):
        for name, copy in moved.items():
            _logger.info("nodes | copy %s to %s | %d bytes", name, copy, files.total_size(paths[name]))
            files.copy_tree(paths[name], copy)
        files.write_text(ready, "")
    changed: dict[str, Any] = {name: files.join(folder, name) for name in fields.outputs}
    return dataclasses.replace(job, **moved, **changed)


def _arguments(job: TrainerJob) -> list[str]:
    """Return the arguments from which `components.runtime.bind.bind_arguments` makes the same Job."""
    fields = job_fields(TrainerJob)
    paths = {name: getattr(job, name) for name in (*fields.inputs, *fields.outputs)}
    given = {name: path for name, path in paths.items() if path} | encode_parameters(job)
    return [f"--{name}={value}" for name, value in given.items()]


class _Training:
    """A TrainJob or TFJob of the cluster."""

    def __init__(self, api: KubernetesApi, kind: JobKind, name: str, pods: str) -> None:
        self._api, self._kind, self._pods = api, kind, pods
        self._folder = f"/apis/{kind.api}/namespaces/{api.namespace}/{kind.plural}"
        self._path = f"{self._folder}/{name}"
        self._selector = kind.selector.format(name=name)
        self._name = f"{kind.plural}/{name}"
        self._read_until, self._waiting_since = "", time.monotonic()

    def start(self, manifest: Mapping[str, Any]) -> None:
        """Create it, or go on with the one of an earlier try; a failed one is made again."""
        while not self._api.create(self._folder, manifest):
            state = self._api.get(self._path) or {}
            if "deletionTimestamp" not in state.get("metadata", {}):
                if not _condition(state, "Failed"):
                    _logger.info("%s | going on with it", self._name)
                    return
                self.delete()
            time.sleep(_POLL_SECONDS)
        _logger.info("%s | created", self._name)

    def has_left(self, copies: str) -> bool:
        """Return whether another training's copies are whole, but it is gone: nothing will read them."""
        name = copies.rpartition("/")[2]
        return files.exists(files.join(copies, _READY)) and self._api.get(f"{self._folder}/{name}") is None

    def delete(self) -> None:
        """Delete it, with its pods."""
        self._api.delete(self._path)

    def follow(self) -> None:
        """Write the chief's log to standard error until the training ends; ModelError if it fails."""
        while True:
            state = self._api.get(self._path)
            if state is None:
                raise ModelError(
                    "expected it until it ends, found it deleted; retry the step", where=self._name
                )
            chiefs = self._list(self._kind.chief)
            for pod in chiefs:
                self._print_log(pod)
            self._tell_of_waiting(state, chiefs)
            if _condition(state, self._kind.succeeded):
                return
            failure = _condition(state, "Failed")
            if failure:
                pods = "; ".join(_exits(self._list(), self._kind.container))
                raise ModelError(
                    f"expected the training on several nodes to succeed, found {failure.get('reason')}:"
                    f" {failure.get('message')} ({pods or 'no pod tells why'}); see its log above",
                    where=self._name,
                )
            time.sleep(_POLL_SECONDS)

    def _tell_of_waiting(self, state: Mapping[str, Any], chiefs: Sequence[Mapping[str, Any]]) -> None:
        """Log once a minute that no chief runs: quotas, a missing image or a refused pod do not end it."""
        if chiefs and chiefs[-1].get("status", {}).get("phase") != "Pending":
            self._waiting_since = time.monotonic()
        elif time.monotonic() - self._waiting_since >= _WAITING_SECONDS:
            self._waiting_since = time.monotonic()
            known = [
                f"{c['type']} {c['status']}: {c.get('message')}"
                for c in state.get("status", {}).get("conditions", [])
            ]
            _logger.warning(
                "%s | its chief does not run yet (%s); kubectl describe it and its pods",
                self._name,
                "; ".join(known) or "no condition",
            )

    def _list(self, chief: str = "") -> list[dict[str, Any]]:
        """Return its pods, the oldest first."""
        found = self._api.get(self._pods, {"labelSelector": ",".join(filter(None, (self._selector, chief)))})
        return sorted(
            (found or {}).get("items", []), key=lambda pod: str(pod["metadata"]["creationTimestamp"])
        )

    def _print_log(self, pod: Mapping[str, Any]) -> None:
        """Write the lines since the last one, and those that come until the container ends."""
        if pod.get("status", {}).get("phase") in (None, "Pending"):
            return
        query = {"container": self._kind.container, "follow": "true", "timestamps": "true"}
        # A line's time has more digits than a request for the time after it.
        query |= {"sinceTime": f"{self._read_until[:19]}Z"} if self._read_until else {}
        for line in self._api.lines(f"{self._pods}/{pod['metadata']['name']}/log", query):
            moment, _, text = line.partition(" ")
            if moment > self._read_until:
                self._read_until = moment
                print(text, file=sys.stderr, flush=True)


def _condition(state: Mapping[str, Any], kind: str) -> dict[str, Any] | None:
    conditions = state.get("status", {}).get("conditions", [])
    return next((c for c in conditions if c["type"] == kind and c["status"] == "True"), None)


def _exits(pods: Sequence[Mapping[str, Any]], container: str) -> Iterator[str]:
    """Yield why containers ended, such as OOMKilled."""
    for pod in pods:
        for status in pod.get("status", {}).get("containerStatuses", []):
            states = (status.get("state", {}), status.get("lastState", {}))
            ended: dict[str, Any] = next((s["terminated"] for s in states if "terminated" in s), {})
            if status["name"] == container and ended.get("exitCode"):
                yield f"{pod['metadata']['name']}: {ended.get('reason')}, exit code {ended['exitCode']}"
