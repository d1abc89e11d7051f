"""The settings of a run on Kubeflow Pipelines: where it works, and what each step's pod gets."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

# Ids of the steps that `steps` may name; which of them a workflow has depends on its other settings.
STEPS = (
    "run_checker",
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

    image: str = ""
    cpu: str = dataclasses.field(default="", metadata=_TEXT)
    cpu_limit: str = dataclasses.field(default="", metadata=_TEXT)
    memory: str = ""
    memory_limit: str = ""
    gpu: int = 0
    gpu_type: str = "nvidia.com/gpu"
    shared_memory: str = ""
    node_selector: dict[str, Any] = dataclasses.field(default_factory=dict)
    tolerations: list[Any] = dataclasses.field(default_factory=list)
    pvcs: dict[str, Any] = dataclasses.field(default_factory=dict)
    secret_env: dict[str, Any] = dataclasses.field(default_factory=dict)
    secret_volumes: dict[str, Any] = dataclasses.field(default_factory=dict)
    config_map_env: dict[str, Any] = dataclasses.field(default_factory=dict)
    config_map_volumes: dict[str, Any] = dataclasses.field(default_factory=dict)
    env: dict[str, Any] = dataclasses.field(default_factory=dict)
    retries: int = 0
    retry_delay: str = "30s"
    retry_factor: float = 2.0
    timeout: int = 0
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

    ui_host: str = ""
    token_file: str = dataclasses.field(default="", metadata={"path": True})
    token_env: str = ""
    cookie_env: str = ""
    iap_client_id: str = ""
    ca_file: str = dataclasses.field(default="", metadata={"path": True})
    verify_tls: bool = True
    kube_context: str = ""
    timeout: int = 30


@dataclasses.dataclass(frozen=True, kw_only=True)
class KubeflowSettings:
    """How the workflow runs on Kubeflow Pipelines.

    Attributes:
        image: container image of every step, best by digest or by a tag that never moves: it is part of what
            the cache goes by.
        image_parameter: whether a run may name another image (its parameter `image`, with this as the
            default); false for KFP's local runner, which takes no image from a parameter.
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

    image: str = "detflow:latest"
    image_parameter: bool = True
    image_pull_policy: str = ""
    image_pull_secrets: list[str] = dataclasses.field(default_factory=list)
    pipeline_root: str = ""
    work_dir: str = ""
    namespace: str = ""
    host: str = ""
    connection: ConnectionSettings = ConnectionSettings()
    experiment: str = ""
    service_account: str = ""
    defaults: TaskSettings = TaskSettings()
    steps: dict[str, Any] = dataclasses.field(default_factory=dict)

    def task(self, step: str) -> dict[str, Any]:
        """Return the fields of a step's TaskSettings: the defaults with its own keys over them."""
        fields = {f.name: getattr(self.defaults, f.name) for f in dataclasses.fields(TaskSettings)}
        for name, value in self.steps.get(step, {}).items():
            merge = isinstance(value, dict) and isinstance(fields.get(name), dict)
            fields[name] = {**fields[name], **value} if merge else value
            if name in ("cpu", "cpu_limit"):
                fields[name] = str(value)  # YAML reads 2 as a number
        return fields


_CPU = re.compile(r"(\d+(\.\d+)?|\d+m)?")
_MEMORY = re.compile(r"(\d+([EPTGM]i?|Ki))?")  # whole, for KFP; Kubernetes knows no K
_DURATION = re.compile(r"\d+s")
_VOLUMES = ("pvcs", "secret_volumes", "config_map_volumes")
_VOLUME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_TOLERATION = {"key", "operator", "value", "effect", "toleration_seconds"}


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("/")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_env(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


def _each(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda values: all(_is_text(key) and holds(value) for key, value in values.items())


_MOUNTS = (_each(_is_path), "expected a map of names to absolute folders")
_VARIABLES = (_each(_is_env), "expected a map of names to maps of keys to environment variables")
_TEXTS = (_each(_is_text), "expected a map of texts to texts (put numbers in quotes)")
_MEMORY_SIZE = (lambda v: bool(_MEMORY.fullmatch(v)), "expected a size such as 8Gi or 500Mi")
_CPUS = (lambda v: bool(_CPU.fullmatch(v)), "expected a number of processors such as 2, 0.5 or 500m")
_COUNT = (lambda v: v >= 0, "expected 0 or more")

_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "cpu": _CPUS,
    "cpu_limit": _CPUS,
    "memory": _MEMORY_SIZE,
    "memory_limit": _MEMORY_SIZE,
    "shared_memory": _MEMORY_SIZE,
    "gpu": _COUNT,
    "retries": _COUNT,
    "timeout": _COUNT,
    "retry_delay": (lambda v: bool(_DURATION.fullmatch(v)), "expected seconds such as 30s"),
    "retry_factor": (lambda v: v >= 1, "expected 1 or more"),
    "node_selector": _TEXTS,
    "env": _TEXTS,
    "pvcs": _MOUNTS,
    "secret_volumes": _MOUNTS,
    "config_map_volumes": _MOUNTS,
    "secret_env": _VARIABLES,
    "config_map_env": _VARIABLES,
    "tolerations": (
        lambda v: all(isinstance(t, dict) and t and set(t) <= _TOLERATION for t in v),
        f"expected a list of maps with some of {', '.join(sorted(_TOLERATION))}",
    ),
}


def find_fault(task: TaskSettings) -> str:
    """Return what is wrong with the first field that cannot be used, "" where all can."""
    for name, (holds, expected) in _CHECKS.items():
        value = getattr(task, name)
        if not holds(value):
            return f"{name}: {expected}, found {value!r}"
    return _volume_fault(task)


def _volume_fault(task: TaskSettings) -> str:
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


def find_general_fault(kubeflow: KubeflowSettings) -> str:
    """Return what is wrong with the keys outside the steps, "" where nothing is."""
    policies = ("", "Always", "IfNotPresent", "Never")
    if not kubeflow.image or kubeflow.image != kubeflow.image.strip():
        return f"image: expected the name of a container image, found {kubeflow.image!r}"
    if kubeflow.image_pull_policy not in policies:
        expected = ", ".join(policies[1:])
        return f"image_pull_policy: expected {expected} or nothing, found {kubeflow.image_pull_policy!r}"
    unknown = [step for step in kubeflow.steps if step not in STEPS]
    if unknown:
        return f"steps: expected some of {', '.join(STEPS)}, found {unknown[0]!r}"
    return ""
