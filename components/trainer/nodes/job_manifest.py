"""The TrainJob or TFJob that trains with the image, volumes and identity of the step's pod."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from component_specs.trainer import NODES, TrainingNodes

RUNTIME = "detflow-trainer"
"""TrainingRuntime of k8s/addons/distributed-training."""
WORKERS = "DETFLOW_WORKERS"
"""Variable of a TrainJob's pods: their number."""
PORT = 2222
_MANAGER = "detflow.dev/trainer"
_COMMAND = ["python", "-m", "components.trainer"]
# A pod's volumes for one life: KFP's and Argo's scratch space, and the token of the step.
_SCRATCH = ("emptyDir", "projected", "downwardAPI")
_OF_THE_STEP = ("KFP_", "ARGO_", NODES)

Object = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobKind:
    """A kind of object that runs a training on several pods.

    Attributes:
        api: group and version.
        plural: name of the kind in paths.
        succeeded: type of the condition of a finished training; that of a failed one is `Failed`.
        container: name of the pods' container.
        selector: labels of its pods; `{name}` stands for the object's name.
        chief: further label of the chief's pod.
        manifest: makes the object of its name, options, the step's pod and the arguments of the pods.
    """

    api: str
    plural: str
    succeeded: str
    container: str
    selector: str
    chief: str
    manifest: Callable[[str, TrainingNodes, Object, Sequence[str]], dict[str, Any]]


def _train_job(name: str, nodes: TrainingNodes, pod: Object, arguments: Sequence[str]) -> dict[str, Any]:
    given, container = _pod_parts(pod), _step_container(pod)
    volumes = {"name": "node", "volumeMounts": given.pop("volumeMounts")}
    patch: Any = {"spec": {**given, "containers": [volumes]}}
    # From the pod outwards: Job, replicated job, JobSet, runtime.
    patch = {"name": "node", "template": {"spec": {"template": patch}}}
    patch = {"template": {"spec": {"replicatedJobs": [patch]}}}
    return {
        "apiVersion": KINDS["TrainJob"].api,
        "kind": "TrainJob",
        "metadata": _metadata(name, nodes, pod),
        "spec": {
            "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": RUNTIME},
            "trainer": {
                "image": container["image"],
                "command": _COMMAND,
                "args": list(arguments),
                "env": [*_variables(container), {"name": WORKERS, "value": str(nodes.nodes)}],
                "numNodes": nodes.nodes,
                "resourcesPerNode": nodes.resources,
            },
            "runtimePatches": [{"manager": _MANAGER, "trainingRuntimeSpec": patch}],
        },
    }


def _tf_job(name: str, nodes: TrainingNodes, pod: Object, arguments: Sequence[str]) -> dict[str, Any]:
    given, step = _pod_parts(pod), _step_container(pod)
    mounts = [*given.pop("volumeMounts"), {"name": "scratch", "mountPath": "/tmp"}]
    container = {
        "name": "tensorflow",
        "image": step["image"],
        "command": _COMMAND,
        "args": list(arguments),
        "env": _variables(step),
        "ports": [{"name": "tfjob-port", "containerPort": PORT}],
        "resources": nodes.resources,
        "volumeMounts": mounts,
        "securityContext": step.get("securityContext", {}),
    }
    spec = {
        **given,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 120,
        "securityContext": pod["spec"].get("securityContext", {}),
        "volumes": [*given["volumes"], {"name": "scratch", "emptyDir": {}}],
        "containers": [container],
    }
    template = {"metadata": {"labels": {"app.kubernetes.io/name": "detector-training"}}, "spec": spec}
    worker = {"replicas": nodes.nodes, "restartPolicy": "OnFailure", "template": template}
    return {
        "apiVersion": KINDS["TFJob"].api,
        "kind": "TFJob",
        "metadata": _metadata(name, nodes, pod),
        "spec": {
            "runPolicy": {"cleanPodPolicy": "None", "backoffLimit": 6},
            "tfReplicaSpecs": {"Worker": worker},
        },
    }


KINDS = {
    "TrainJob": JobKind(
        api="trainer.kubeflow.org/v1alpha1",
        plural="trainjobs",
        succeeded="Complete",
        container="node",
        selector="jobset.sigs.k8s.io/jobset-name={name}",
        chief="batch.kubernetes.io/job-completion-index=0",
        manifest=_train_job,
    ),
    "TFJob": JobKind(
        api="kubeflow.org/v1",
        plural="tfjobs",
        succeeded="Succeeded",
        container="tensorflow",
        selector="training.kubeflow.org/job-name={name}",
        chief="training.kubeflow.org/replica-index=0",
        manifest=_tf_job,
    ),
}


def _metadata(name: str, nodes: TrainingNodes, pod: Object) -> dict[str, Any]:
    # The run's workflow, not the pod, which a retry replaces: the training must outlive it.
    owners = [
        {**owner, "controller": False, "blockOwnerDeletion": False}
        for owner in pod["metadata"].get("ownerReferences", [])
        if owner["kind"] == "Workflow"
    ]
    return {"name": name, "labels": dict(nodes.labels), "ownerReferences": owners}


def _step_container(pod: Object) -> dict[str, Any]:
    containers = {container["name"]: container for container in pod["spec"]["containers"]}
    return dict(containers["main"])


def _variables(container: Object) -> list[Object]:
    """Return the variables of the step except those about the step's pod."""
    return [
        variable
        for variable in container.get("env", [])
        if not variable["name"].startswith(_OF_THE_STEP) and "fieldRef" not in variable.get("valueFrom", {})
    ]


def _pod_parts(pod: Object) -> dict[str, Any]:
    """Return what the step's pod shares with those that train, `volumeMounts` beside it."""
    spec = pod["spec"]
    volumes = [
        volume
        for volume in spec.get("volumes", [])
        if not volume.keys() & set(_SCRATCH) or volume.get("emptyDir", {}).get("medium") == "Memory"
    ]
    names = {volume["name"] for volume in volumes}
    mounts = [m for m in _step_container(pod).get("volumeMounts", []) if m["name"] in names]
    keys = ("serviceAccountName", "nodeSelector", "tolerations", "imagePullSecrets", "affinity")
    given = {key: spec[key] for key in keys if spec.get(key)}
    return {**given, "volumes": volumes, "volumeMounts": mounts}
