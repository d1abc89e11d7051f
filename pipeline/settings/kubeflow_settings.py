"""Settings of a run on Kubeflow Pipelines, of the connection to it, and of each step's pod."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import pydantic
from pydantic_core import PydanticCustomError

from detection_core.redaction import redact
from pipeline.settings.setting_types import (
    NOT_EMPTY,
    NUMBER,
    TEXT,
    MultilineText,
    Path,
    Rule,
    Settings,
    Text,
    UnquotedText,
    Whole,
    between,
    by_kind,
    matching,
    setting,
)
from pipeline.settings.step_ids import STEPS, step_ids
from pipeline.settings.validation_errors import contradictions

_NO_SECRET = (
    "an address without user and password, which every message would show; remove them, and sign in with"
    " --token-env, --token-file or --cookie-env"
)


def _check_address(value: str) -> str:
    if (value and not re.fullmatch(r"https?://[^/\s]+(/\S*)?", value)) or len(value) > 2048:
        expected = "an address that starts with http:// or https://"
        raise PydanticCustomError("rule", "{expected}", {"expected": expected})
    if "@" in value.partition("://")[2].partition("/")[0]:
        raise PydanticCustomError("rule", "{expected}", {"expected": _NO_SECRET, "found": "some"})
    return value


Address = Annotated[
    Text,
    pydantic.AfterValidator(_check_address),
    pydantic.WithJsonSchema({"type": "string", "pattern": r"^(https?://[^/\s@]+(/\S*)?)?$"}),
]


class ConnectionSettings(Settings):
    """Connection to the server, apart from its address. Secrets are given by file or variable."""

    ui_host: Address = setting("", "Address of the user interface, for links.", unset="the host")
    token_file: Path = setting("", "File with a bearer token, read again for each request.")
    token_env: Text = setting("", "Environment variable that holds a bearer token.")
    cookie_env: Text = setting("", "Environment variable that holds the session cookie of a login page.")
    iap_client_id: Text = setting("", "OAuth client id of Google's Identity-Aware Proxy.")
    ca_file: Path = setting("", "File with the certificates of the server's authority.")
    verify_tls: bool = setting(True, "Whether the server's certificate is checked; false accepts any.")
    kube_context: Text = setting(
        "", "Context of the kubeconfig; used without a host.", unset="the current one"
    )
    timeout: Annotated[int, between(1, 86_400)] = setting(30, "Limit of one request.", unit="seconds")


class ConnectionOptions(ConnectionSettings):
    """Connection to one server."""

    host: Address = setting(
        "",
        "Address of the Kubeflow Pipelines API.",
        unset="the service inside the cluster, else the kube context's proxy",
        examples=["http://localhost:8080"],
    )
    namespace: Text = setting("", "Your namespace.", unset="that of the pod; none on a single-user server")


# Names and quantities of Kubernetes, from "Object Names and IDs", "Labels and Selectors" and "Resource
# Management for Pods and Containers". Names of environment variables are those that its API accepts.
_PART = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_SUBDOMAIN = rf"{_PART}(\.{_PART})*"

OBJECT_NAME = matching(
    _SUBDOMAIN, "the name of an object: small letters, digits, hyphens and dots, 253 at most", longest=253
)
OBJECT_NAME_OR_NOTHING = matching(
    f"({_SUBDOMAIN})?", "small letters, digits, hyphens and dots, 253 at most, or nothing", longest=253
)
NAMESPACE_OR_NOTHING = matching(
    f"({_PART})?", "small letters, digits and hyphens, 63 at most, or nothing", longest=63
)
KEY = matching(r"[-._a-zA-Z0-9]+", "a key of letters, digits, -, _ and dots, 253 at most", longest=253)
VARIABLE = matching(
    r"[-._a-zA-Z][-._a-zA-Z0-9]*", "an environment variable of letters, digits, _, - and dots", longest=253
)
LABEL_KEY = matching(rf"({_SUBDOMAIN}/)?{_LABEL}", "a key such as kubernetes.io/arch", longest=253 + 1 + 63)
LABEL_VALUE = matching(f"({_LABEL})?", "letters, digits, -, _ and dots, 63 at most", longest=63)
RESOURCE = matching(rf"{_SUBDOMAIN}/{_LABEL}", "a resource such as nvidia.com/gpu", longest=253 + 1 + 63)
FOLDER = matching("/.*", "an absolute folder such as /data", longest=4096)
CPUS = matching(r"(\d{1,9}(\.\d{1,3})?|\d{1,12}m)?", "a number of processors such as 2, 0.5 or 500m")
# Kubeflow Pipelines needs whole numbers; Kubernetes has no suffix K.
MEMORY = matching(r"(\d{1,15}([EPTGM]i?|Ki))?", "a size such as 8Gi or 500Mi")
SECONDS = matching(r"\d{1,9}s", "seconds such as 30s")
IMAGE = matching(r"\S+", "the name of a container image, without spaces", longest=1024)
IMAGE_OR_NOTHING = matching(r"\S*", "the name of a container image, without spaces, or nothing", longest=1024)

SECONDS_OF_A_POD = 2**31 - 1
"""Maximum activeDeadlineSeconds."""


Cpus = Annotated[UnquotedText, CPUS]
Memory = Annotated[Text, MEMORY]
Name = Annotated[Text, OBJECT_NAME]
Mounts = dict[Name, Annotated[Text, FOLDER]]
Variables = dict[Name, dict[Annotated[Text, KEY], Annotated[Text, VARIABLE]]]
Toleration = dict[
    Literal["key", "operator", "value", "effect", "toleration_seconds"],
    Annotated[Annotated[Whole, NUMBER] | Annotated[Text, TEXT], by_kind("a text or a whole number")],
]
STEP_ID = Rule(
    lambda text: text in step_ids(), f"one of {', '.join(STEPS)}, or a registered step", {"enum": list(STEPS)}
)
_CLUSTERS = "the cluster's default"
_SERVERS = "the server's default"


class TaskSettings(Settings):
    """Options of a step's pod. Secrets and config maps are given by name, never by content."""

    image: Annotated[Text, IMAGE_OR_NOTHING] = setting(
        "",
        "Image of this step only, for example one with CUDA for the steps that train.",
        unset="`kubeflow.image`, or what the run names",
    )
    cpu: Cpus = setting("", "Processors to reserve.", unset=_CLUSTERS, examples=["2", "500m"])
    cpu_limit: Cpus = setting("", "Processors that it may use at most.", unset=_CLUSTERS)
    memory: Memory = setting(
        "", "Memory to reserve, a whole number.", unset=_CLUSTERS, examples=["8Gi", "1500Mi"]
    )
    memory_limit: Memory = setting("", "Memory that it may use at most.", unset=_CLUSTERS)
    gpu: Annotated[int, between(0, 1_024)] = setting(0, "How many accelerators.", unit="accelerators")
    gpu_type: Annotated[Text, RESOURCE] = setting("nvidia.com/gpu", "Resource name of the accelerator.")
    shared_memory: Memory = setting(
        "",
        "Size of `/dev/shm`, for data loaders in several processes.",
        unset="the node's 64 MB",
        examples=["2Gi"],
    )
    node_selector: dict[Annotated[Text, LABEL_KEY], Annotated[Text, LABEL_VALUE]] = setting(
        dict, "Node label to value.", examples=[{"kubernetes.io/arch": "amd64"}]
    )
    tolerations: list[Annotated[Toleration, NOT_EMPTY]] = setting(
        list,
        "Maps of `key`, `operator`, `value`, `effect` and `toleration_seconds`, as in a pod.",
        examples=[[{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]],
    )
    pvcs: Mounts = setting(
        dict, "Persistent volume claim to the folder where it appears.", examples=[{"detflow-data": "/data"}]
    )
    secret_env: Variables = setting(dict, "Secret to a map of its keys to environment variables.")
    secret_volumes: Mounts = setting(dict, "Secret to the folder where its keys appear as files.")
    config_map_env: Variables = setting(dict, "Config map to a map of its keys to environment variables.")
    config_map_volumes: Mounts = setting(dict, "Config map to the folder where its keys appear as files.")
    env: dict[Annotated[Text, VARIABLE], MultilineText] = setting(
        dict, "Environment variable to value; secrets belong into `secret_env`."
    )
    retries: Annotated[int, between(0, 1_000)] = setting(
        0,
        "How often a failed step is retried, each time in a new pod; see [retries](kubeflow.md#retries).",
        unit="times",
    )
    retry_delay: Annotated[Text, SECONDS] = setting(
        "30s", "Wait before the first retry.", unit="seconds, with an `s`"
    )
    retry_factor: Annotated[float, between(1, 1_000)] = setting(
        2.0, "Factor by which each further wait is longer."
    )
    timeout: Annotated[int, between(0, SECONDS_OF_A_POD)] = setting(
        0, "Time after which the pod is stopped.", unset="0: never", unit="seconds"
    )
    caching: bool = setting(
        True,
        "Whether the outputs of a finished step with the same inputs are used again; `run_checker`"
        " is never cached.",
    )

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield key and message of settings that prevent a pod from starting, or would reveal a secret."""
        yield from _volume_problems(self)
        yield from _secret_problems(self)


class KubeflowSettings(Settings):
    """Options of runs on Kubeflow Pipelines."""

    image: Annotated[Text, IMAGE] = setting(
        "detflow:latest",
        "Container image of every step. Use a digest or a tag that never moves, because it is part of the"
        " cache key; see [Kubeflow](kubeflow.md#caching).",
    )
    image_parameter: bool = setting(
        True,
        "Whether a run may name another image; this one is the default. Set it to false for KFP's local"
        " runner, which takes no image from a parameter.",
    )
    schedule_time: bool = setting(
        True,
        "Whether RunChecker gets the run's scheduled time and id, for"
        " [placeholders](kubeflow.md#placeholders). Set it to false for KFP's local runner, which (in"
        " 2.17) fails if a step asks for the time.",
    )
    image_pull_policy: Literal["", "Always", "IfNotPresent", "Never"] = setting(
        "", "When the image is pulled.", unset=_CLUSTERS
    )
    image_pull_secrets: list[Name] = setting(list, "Names of secrets with which the image is pulled.")
    pipeline_root: Text = setting(
        "", "Object-store folder of the artifacts.", unset=_SERVERS, examples=["s3://bucket/artifacts"]
    )
    work_dir: Text = setting(
        "",
        "Durable folder for the checkpoints of unfinished training: on a volume mounted through `pvcs`, or on"
        " an object store.",
        unset="`work` in the workspace",
    )
    namespace: Annotated[Text, NAMESPACE_OR_NOTHING] = setting(
        "",
        "Namespace of the runs. Names of Kubernetes objects are checked by the rules of Kubernetes.",
        unset=_SERVERS,
    )
    host: Address = setting(
        "", "Address of the Kubeflow Pipelines API, for submitting.", examples=["http://localhost:8080"]
    )
    connection: ConnectionSettings = setting(
        ConnectionSettings(),
        "Connection to the server, apart from its address; see"
        " [submitting](kubeflow.md#server-and-credentials).",
    )
    experiment: Text = setting("", "Experiment of the runs.", unset="the pipeline's name")
    service_account: Annotated[Text, OBJECT_NAME_OR_NOTHING] = setting(
        "", "Kubernetes service account of the steps.", unset=_SERVERS
    )
    defaults: TaskSettings = setting(TaskSettings(), "Options of the pods of all steps.")
    steps: dict[Annotated[Text, STEP_ID], TaskSettings] = setting(
        dict,
        "Step to keys of `kubeflow.defaults` that differ for it. Maps are merged, other values are replaced.",
        examples=[{"trainer": {"gpu": 1}}],
    )

    @pydantic.model_validator(mode="after")
    def _check(self) -> "KubeflowSettings":
        tasks = {"defaults": self.defaults} | {f"steps.{step}": self.task(step) for step in self.steps}
        found = [(f"{key}.{n}", text) for key, task in tasks.items() for n, text in task.contradictions()]
        if found:
            raise contradictions(found)
        return self

    @pydantic.field_serializer("steps")
    def _given(self, steps: dict[str, TaskSettings]) -> dict[str, dict[str, Any]]:
        """Serialize only the given keys of each step: the others have defaults."""
        return {step: task.model_dump(exclude_unset=True) for step, task in steps.items()}

    def task(self, step: str) -> TaskSettings:
        """Return the settings of a step's pod: the defaults, overridden by the step's keys."""
        own = self.steps.get(step, TaskSettings())
        changes: dict[str, Any] = {}
        for name in own.model_fields_set:
            default, value = getattr(self.defaults, name), getattr(own, name)
            changes[name] = {**default, **value} if isinstance(value, dict) else value
        return self.defaults.model_copy(update=changes)

    def connection_options(self) -> ConnectionOptions:
        """Return the connection options of the runs' server."""
        return ConnectionOptions(**self.connection.model_dump(), host=self.host, namespace=self.namespace)


# For example AWS_SECRET_ACCESS_KEY. Names that end with _FILE, and values that begin with a slash, are paths.
_SECRET_NAME = re.compile(
    r".*(SECRET|TOKEN|PASSWORD|PASSWD|CREDENTIALS?|ACCESS_KEY|API_KEY)(_ID)?", re.IGNORECASE
)


def _secret_problems(task: TaskSettings) -> Iterator[tuple[str, str]]:
    """Yield environment variables that would reveal a secret to every reader of the package."""
    for name, value in task.env.items():
        is_secret = _SECRET_NAME.fullmatch(name) and value and not value.startswith("/")
        if is_secret or redact(value) != value:
            yield (
                f"env.{name}",
                "expected no secret, which all could read in the package; use a Kubernetes secret, in"
                " secret_env",
            )


_VOLUMES = ("pvcs", "secret_volumes", "config_map_volumes")
_VOLUME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def _volume_problems(task: TaskSettings) -> Iterator[tuple[str, str]]:
    """Yield conflicts between volumes of a pod, which are named after their sources."""
    key = ", ".join(_VOLUMES)
    mounts = [mount for kind in _VOLUMES for mount in getattr(task, kind).items()]
    mounts += [("shared-memory", "/dev/shm")] if task.shared_memory else []
    for what, values in zip(("name", "folder"), zip(*mounts, strict=True), strict=False):
        found = [value.rstrip("/") for value in values]
        twice = next((value for value in found if found.count(value) > 1), "")
        if twice:
            yield key, f"expected every {what} once, found {twice!r} twice"
    odd = next((name for name, _ in mounts if not _VOLUME.fullmatch(name)), "")
    if odd:
        yield key, f"expected small letters, digits and hyphens, found {odd!r}"
