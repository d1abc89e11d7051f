"""Settings of a run on Kubeflow Pipelines, of the connection to it, and of each step's pod."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import pydantic
from pydantic_core import PydanticCustomError

from detection_core.redaction import redact
from pipeline.settings.setting_types import (
    GIVEN_ONLY,
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
    from_factory,
    matching,
)
from pipeline.settings.step_ids import STEPS, TRAINER, step_ids
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

    ui_host: Address = ""
    token_file: Path = ""
    token_env: Text = ""
    cookie_env: Text = ""
    iap_client_id: Text = ""
    ca_file: Path = ""
    verify_tls: bool = True
    kube_context: Text = ""
    timeout: Annotated[int, between(1, 86_400)] = 30


class ConnectionOptions(ConnectionSettings):
    """Connection to one server."""

    host: Address = ""
    namespace: Text = ""


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

    image: Annotated[Text, IMAGE_OR_NOTHING] = ""
    cpu: Cpus = ""
    cpu_limit: Cpus = ""
    memory: Memory = ""
    memory_limit: Memory = ""
    gpu: Annotated[int, between(0, 1_024)] = 0
    gpu_type: Annotated[Text, RESOURCE] = "nvidia.com/gpu"
    shared_memory: Memory = ""
    node_selector: dict[Annotated[Text, LABEL_KEY], Annotated[Text, LABEL_VALUE]] = from_factory(dict)
    tolerations: list[Annotated[Toleration, NOT_EMPTY]] = from_factory(list)
    pvcs: Mounts = from_factory(dict)
    secret_env: Variables = from_factory(dict)
    secret_volumes: Mounts = from_factory(dict)
    config_map_env: Variables = from_factory(dict)
    config_map_volumes: Mounts = from_factory(dict)
    env: dict[Annotated[Text, VARIABLE], MultilineText] = from_factory(dict)
    retries: Annotated[int, between(0, 1_000)] = 0
    retry_delay: Annotated[Text, SECONDS] = "30s"
    retry_factor: Annotated[float, between(1, 1_000)] = 2.0
    timeout: Annotated[int, between(0, SECONDS_OF_A_POD)] = 0
    caching: bool = True
    nodes: Annotated[int, between(0, 1_000)] = 0
    job_kind: Literal["TrainJob", "TFJob"] = "TrainJob"
    job_labels: dict[Annotated[Text, LABEL_KEY], Annotated[Text, LABEL_VALUE]] = from_factory(dict)

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield key and message of settings that prevent a pod from starting, or would reveal a secret."""
        yield from _volume_problems(self)
        yield from _secret_problems(self)


class WorkspaceSettings(Settings):
    """Options of a run's volume, which Kubeflow Pipelines makes and removes."""

    size: Memory = ""
    storage_class: Annotated[Text, OBJECT_NAME_OR_NOTHING] = ""
    access_mode: Literal["ReadWriteMany", "ReadWriteOnce"] = "ReadWriteMany"


class KubeflowSettings(Settings):
    """Options of runs on Kubeflow Pipelines."""

    image: Annotated[Text, IMAGE] = "detflow:latest"
    image_parameter: bool = True
    schedule_time: bool = True
    image_pull_policy: Literal["", "Always", "IfNotPresent", "Never"] = ""
    image_pull_secrets: list[Name] = from_factory(list)
    pipeline_root: Text = ""
    work_dir: Text = ""
    workspace: WorkspaceSettings = WorkspaceSettings()
    namespace: Annotated[Text, NAMESPACE_OR_NOTHING] = ""
    host: Address = ""
    connection: ConnectionSettings = ConnectionSettings()
    experiment: Text = ""
    service_account: Annotated[Text, OBJECT_NAME_OR_NOTHING] = ""
    defaults: TaskSettings = TaskSettings()
    steps: dict[Annotated[Text, STEP_ID], Annotated[TaskSettings, GIVEN_ONLY]] = from_factory(dict)

    @pydantic.model_validator(mode="after")
    def _check(self) -> "KubeflowSettings":
        tasks = {"defaults": self.defaults} | {f"steps.{step}": self.task(step) for step in self.steps}
        found = [(f"{key}.{n}", text) for key, task in tasks.items() for n, text in task.contradictions()]
        found += [
            (
                f"{key}.nodes",
                f"expected nodes of {TRAINER} alone, found {task.nodes}; set them in steps.{TRAINER}",
            )
            for key, task in tasks.items()
            if task.nodes and key != f"steps.{TRAINER}"
        ]
        if self.task(TRAINER).nodes and self.workspace.size:
            text = (
                f"expected none with steps.{TRAINER}.nodes, whose pods do not mount it; set data.shards_uri"
            )
            found.append(("workspace.size", text))
        if self.task(TRAINER).nodes and not self.work_dir:
            found.append(
                (
                    f"steps.{TRAINER}.nodes",
                    "expected kubeflow.work_dir, found none; name a folder on a volume or object store that"
                    " all nodes reach",
                )
            )
        if found:
            raise contradictions(found)
        return self

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
