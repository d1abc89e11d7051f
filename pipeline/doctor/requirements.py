"""Requirements of a cluster: permissions of runs and users, and kinds of other projects."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Right:
    """A permission that an account may need.

    Attributes:
        group: API group; empty for Kubernetes' core.
        resource: plural name, with a subresource after a slash.
        verbs: Kubernetes verbs.
        purpose: feature that needs it.
        name: name of the only object; empty: any.
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    purpose: str
    name: str = ""

    def attributes(self, verb: str, namespace: str) -> dict[str, str]:
        """Return the attributes of an access review."""
        resource, _, subresource = self.resource.partition("/")
        found = {"namespace": namespace, "verb": verb, "group": self.group, "resource": resource}
        found |= {"subresource": subresource} if subresource else {}
        return found | ({"name": self.name} if self.name else {})


# Permissions of the caller that the pipelines API checks, on a multi-user server.
_PIPELINES = "pipelines.kubeflow.org"
CALLER_RIGHTS = (
    Right(_PIPELINES, "pipelines", ("get", "list", "create"), "detflow submit"),
    Right(_PIPELINES, "pipelines/versions", ("get", "list", "create"), "detflow submit"),
    Right(_PIPELINES, "experiments", ("get", "list", "create"), "detflow submit"),
    Right(_PIPELINES, "runs", ("get", "list", "create"), "detflow submit and runs"),
    Right(_PIPELINES, "runs", ("terminate", "retry"), "detflow runs cancel and retry"),
    Right(_PIPELINES, "jobs", ("get", "list", "create", "enable", "disable", "delete"), "detflow schedule"),
)

# Permissions of a run's pods; a test compares them with k8s/base/rbac.yaml.
STEP_RIGHTS = (
    Right("argoproj.io", "workflows", ("get",), "Kubeflow's driver, for the time of a schedule"),
    Right(
        "argoproj.io", "workflowtaskresults", ("create", "patch"), "Argo's executor, which reports results"
    ),
    Right("argoproj.io", "workflowtasksets", ("get", "list", "watch"), "Argo's agent"),
    Right("argoproj.io", "workflowtasksets/status", ("patch",), "Argo's agent"),
    Right("", "configmaps", ("get",), "Kubeflow's launcher", name="kfp-launcher"),
    Right("", "secrets", ("get",), "Kubeflow's launcher", name="mlpipeline-minio-artifact"),
    Right("", "pods", ("get",), "Kubeflow's launcher"),
)


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind that may be missing on a cluster.

    Attributes:
        plural: plural name in the API.
        release: release of the project that the manifests are tested with.
        needed_by: feature that needs it.
        always: whether every run needs it.
    """

    group: str
    version: str
    plural: str
    project: str
    release: str
    needed_by: str
    always: bool = False

    @property
    def name(self) -> str:
        """Name of its CustomResourceDefinition."""
        return f"{self.plural}.{self.group}"


_KFP = "Kubeflow Pipelines"
_ADDON = "k8s/addons/distributed-training"
_ADDON_OR_GPU = f"{_ADDON} and k8s/overlays/gpu"
_SERVING = "k8s/addons/serving-kserve and k8s/overlays/gpu"
_TRAINER = "trainer.kubeflow.org", "v1alpha1"
# `make test-cluster` applies k8s/ with these releases; tests/cluster/crds.txt lists their sources.
KINDS = (
    Kind("argoproj.io", "v1alpha1", "workflows", "Argo Workflows", "4.0.5", "every run", always=True),
    Kind("kubeflow.org", "v1beta1", "scheduledworkflows", _KFP, "2.17.0", "every schedule", always=True),
    Kind("serving.kserve.io", "v1beta1", "inferenceservices", "KServe", "0.17.0", _SERVING),
    Kind(*_TRAINER, "trainjobs", "Kubeflow Trainer", "2.2.0", _ADDON_OR_GPU),
    Kind(*_TRAINER, "trainingruntimes", "Kubeflow Trainer", "2.2.0", _ADDON_OR_GPU),
    Kind("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", "0.11.1", f"Kubeflow Trainer, so {_ADDON}"),
    Kind("kubeflow.org", "v1", "tfjobs", "Kubeflow training operator", "1.9.3", f"{_ADDON}-tfjob"),
)
