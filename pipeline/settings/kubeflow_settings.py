"""The settings of a run on Kubeflow Pipelines: where it works, and what each step's pod gets."""

from __future__ import annotations

import dataclasses
import re
from typing import Annotated, Any, Literal

from detection_core.redaction import redact
from pipeline.settings.kubernetes_names import (
    ADDRESS_OR_NOTHING,
    CPUS,
    FOLDER,
    IMAGE,
    IMAGE_OR_NOTHING,
    KEY,
    LABEL_KEY,
    LABEL_VALUE,
    MEMORY,
    NAMESPACE_OR_NOTHING,
    OBJECT_NAME,
    OBJECT_NAME_OR_NOTHING,
    RESOURCE,
    SECONDS,
    SECONDS_OF_A_POD,
    VARIABLE,
)
from pipeline.settings.settings_values import MULTILINE, NOT_EMPTY, between, one_of

# Ids of the steps that `steps` may name; which of them a workflow has depends on its other settings.
STEPS = (
    "run_checker",
    "config_gen",
    "example_gen",
    "baseline_resolver",
    "trainer",
    "evaluator",
    "quantization_rewriter",
    "quantized_evaluator",
    "tflite_exporter",
    "pusher",
)

_TEXT = {"text": True}

Cpus = Annotated[str, CPUS]
Memory = Annotated[str, MEMORY]
Name = Annotated[str, OBJECT_NAME]
Mounts = dict[Name, Annotated[str, FOLDER]]
Variables = dict[Name, dict[Annotated[str, KEY], Annotated[str, VARIABLE]]]
Toleration = dict[Literal["key", "operator", "value", "effect", "toleration_seconds"], str | int]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """What a step's pod gets. Secrets and config maps are named here, never their content.

    Attributes:
        image: of this step alone, such as one with CUDA for the steps that train; empty: the run's.
        cpu: processors to reserve, such as `2` or `500m`; empty: the cluster's default, as everywhere here.
        cpu_limit: processors that it may use at most.
        memory: memory to reserve, such as `8Gi`.
        memory_limit: memory that it may use at most.
        gpu: how many accelerators.
        gpu_type: resource name of the accelerator.
        shared_memory: size of `/dev/shm`, such as `2Gi`, for data loaders in several processes.
        node_selector: node label to value.
        tolerations: each a map of key, operator, value, effect and toleration_seconds, as in a pod.
        pvcs: name of a persistent volume claim to the folder where it appears.
        secret_env: name of a secret to a map of its keys to environment variables.
        secret_volumes: name of a secret to the folder where its keys appear as files.
        config_map_env: name of a config map to a map of its keys to environment variables.
        config_map_volumes: name of a config map to the folder where its keys appear as files.
        env: environment variable to value.
        retries: how often a failed step is tried again, each time in a new pod.
        retry_delay: time before the first retry.
        retry_factor: by how much each further delay is longer.
        timeout: seconds after which the pod is stopped; 0: never.
        caching: whether a finished step with the same inputs answers; never so for `run_checker`.
    """

    image: Annotated[str, IMAGE_OR_NOTHING] = ""
    cpu: Cpus = dataclasses.field(default="", metadata=_TEXT)
    cpu_limit: Cpus = dataclasses.field(default="", metadata=_TEXT)
    memory: Memory = ""
    memory_limit: Memory = ""
    gpu: Annotated[int, between(0, 1_024)] = 0
    gpu_type: Annotated[str, RESOURCE] = "nvidia.com/gpu"
    shared_memory: Memory = ""
    node_selector: dict[Annotated[str, LABEL_KEY], Annotated[str, LABEL_VALUE]] = dataclasses.field(
        default_factory=dict
    )
    tolerations: list[Annotated[Toleration, NOT_EMPTY]] = dataclasses.field(default_factory=list)
    pvcs: Mounts = dataclasses.field(default_factory=dict)
    secret_env: Variables = dataclasses.field(default_factory=dict)
    secret_volumes: Mounts = dataclasses.field(default_factory=dict)
    config_map_env: Variables = dataclasses.field(default_factory=dict)
    config_map_volumes: Mounts = dataclasses.field(default_factory=dict)
    env: dict[Annotated[str, VARIABLE], Annotated[str, MULTILINE]] = dataclasses.field(default_factory=dict)
    retries: Annotated[int, between(0, 1_000)] = 0
    retry_delay: Annotated[str, SECONDS] = "30s"
    retry_factor: Annotated[float, between(1, 1_000)] = 2.0
    timeout: Annotated[int, between(0, SECONDS_OF_A_POD)] = 0
    caching: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConnectionSettings:
    """How the server is reached, apart from its address. Secrets are named here by file or variable.

    Attributes:
        ui_host: address of the user interface, for links; empty: the host.
        token_file: file with a bearer token, read anew for every request.
        token_env: environment variable that holds a bearer token.
        cookie_env: environment variable that holds a session cookie.
        iap_client_id: OAuth client id of Google's Identity-Aware Proxy.
        ca_file: certificates of the server's authority.
        verify_tls: false accepts any certificate.
        kube_context: context of the kubeconfig, where there is no host.
        timeout: seconds that one request may take.
    """

    ui_host: Annotated[str, ADDRESS_OR_NOTHING] = ""
    token_file: str = dataclasses.field(default="", metadata={"path": True})
    token_env: str = ""
    cookie_env: str = ""
    iap_client_id: str = ""
    ca_file: str = dataclasses.field(default="", metadata={"path": True})
    verify_tls: bool = True
    kube_context: str = ""
    timeout: Annotated[int, between(1, 86_400)] = 30


@dataclasses.dataclass(frozen=True, kw_only=True)
class KubeflowSettings:
    """How the workflow runs on Kubeflow Pipelines.

    Attributes:
        image: container image of every step, best by digest or by a tag that never moves: it is part of what
            the cache goes by.
        image_parameter: whether a run may name another image (its parameter `image`, with this as the
            default); false for KFP's local runner, which takes no image from a parameter.
        schedule_time: whether RunChecker is told the run's scheduled time and id, with which placeholders are
            filled; false for KFP's local runner, which (in 2.17) breaks where the time is asked for.
        image_pull_policy: `Always`, `IfNotPresent` or `Never`; empty: the cluster's default.
        image_pull_secrets: names of secrets with which the image is pulled.
        pipeline_root: object-store folder of the artifacts; empty: the server's default.
        work_dir: durable folder for the checkpoints of unfinished training, on a volume that is mounted
            through `pvcs` or on an object store; empty: `work` in the workspace.
        namespace: namespace of the runs; empty: the server's default.
        host: address of the Kubeflow Pipelines API, for submitting.
        connection: how the server is reached, apart from its address.
        experiment: experiment of the runs; empty: the pipeline's name.
        service_account: Kubernetes service account of the steps; empty: the server's default.
        defaults: what every step gets.
        steps: step id to the keys of `defaults` that differ for it; maps are merged, all else is replaced.
    """

    image: Annotated[str, IMAGE] = "detflow:latest"
    image_parameter: bool = True
    schedule_time: bool = True
    image_pull_policy: Literal["", "Always", "IfNotPresent", "Never"] = ""
    image_pull_secrets: list[Name] = dataclasses.field(default_factory=list)
    pipeline_root: str = ""
    work_dir: str = ""
    namespace: Annotated[str, NAMESPACE_OR_NOTHING] = ""
    host: Annotated[str, ADDRESS_OR_NOTHING] = ""
    connection: ConnectionSettings = ConnectionSettings()
    experiment: str = ""
    service_account: Annotated[str, OBJECT_NAME_OR_NOTHING] = ""
    defaults: TaskSettings = TaskSettings()
    steps: dict[Annotated[str, one_of(*STEPS)], dict[str, Any]] = dataclasses.field(default_factory=dict)

    def task(self, step: str) -> dict[str, Any]:
        """Return the fields of a step's TaskSettings: the defaults with its own keys over them."""
        fields = {f.name: getattr(self.defaults, f.name) for f in dataclasses.fields(TaskSettings)}
        for name, value in self.steps.get(step, {}).items():
            merge = isinstance(value, dict) and isinstance(fields.get(name), dict)
            fields[name] = {**fields[name], **value} if merge else value
            if name in ("cpu", "cpu_limit"):
                fields[name] = str(value)  # YAML reads 2 as a number
        return fields


# Such as AWS_SECRET_ACCESS_KEY; what ends in _FILE is a path, and so is what begins with a slash.
_SECRET_NAME = re.compile(
    r".*(SECRET|TOKEN|PASSWORD|PASSWD|CREDENTIALS?|ACCESS_KEY|API_KEY)(_ID)?", re.IGNORECASE
)


def find_secret_fault(task: TaskSettings) -> str:
    """Return which environment variable would show a secret to everybody who may read the package."""
    for name, value in task.env.items():
        named = _SECRET_NAME.fullmatch(name) and value and not value.startswith("/")
        if named or redact(value) != value:
            return (
                f"env.{name}: expected no secret, which would stand in the package for all to read; put it "
                "into a Kubernetes secret and name that in secret_env"
            )
    return ""


_VOLUMES = ("pvcs", "secret_volumes", "config_map_volumes")
_VOLUME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def find_volume_fault(task: TaskSettings) -> str:
    """Return what keeps a pod from having all volumes, whose names are those of what they show."""
    mounts = [mount for kind in _VOLUMES for mount in getattr(task, kind).items()]
    mounts += [("shared-memory", "/dev/shm")] if task.shared_memory else []
    for what, values in zip(("name", "folder"), zip(*mounts, strict=True), strict=False):
        found = [value.rstrip("/") for value in values]
        twice = next((value for value in found if found.count(value) > 1), "")
        if twice:
            return f"{', '.join(_VOLUMES)}: expected every {what} once, found {twice!r} twice"
    odd = next((name for name, _ in mounts if not _VOLUME.fullmatch(name)), "")
    return f"{', '.join(_VOLUMES)}: expected small letters, digits and hyphens, found {odd!r}" if odd else ""
