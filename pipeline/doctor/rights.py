"""The rights that runs and those who start them need, as tables."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Right:
    """Something that an account may have to do.

    Attributes:
        group: API group; empty for Kubernetes' core.
        resource: plural name, with a subresource after a slash.
        verbs: what is done with it.
        purpose: what does not work without it.
        name: of the one object that is meant; empty: any.
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


# What the pipelines API asks Kubernetes about the caller, on a server with users.
_PIPELINES = "pipelines.kubeflow.org"
CALLER_RIGHTS = (
    Right(_PIPELINES, "pipelines", ("get", "list", "create"), "detflow submit"),
    Right(_PIPELINES, "pipelines/versions", ("get", "list", "create"), "detflow submit"),
    Right(_PIPELINES, "experiments", ("get", "list", "create"), "detflow submit"),
    Right(_PIPELINES, "runs", ("get", "list", "create"), "detflow submit and runs"),
    Right(_PIPELINES, "runs", ("terminate", "retry"), "detflow runs cancel and retry"),
    Right(
        _PIPELINES,
        "jobs",
        ("get", "list", "create", "enable", "disable", "delete"),
        "detflow schedule",
    ),
)

# What a pod of a run does, with the account of the steps: the rules of k8s/base/rbac.yaml, which a test holds
# against this.
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
