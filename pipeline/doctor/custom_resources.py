"""The kinds beyond Kubernetes' own that runs, schedules and k8s/ use, and the projects that provide them."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind that a cluster may lack.

    Attributes:
        group: API group.
        version: version of the API.
        plural: as the API names it.
        project: that provides it.
        release: of the project, which the manifests were applied against.
        needed_by: what does not work without it.
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


# `make test-cluster` applies k8s/ against these releases; tests/cluster/crds.txt says where they come from.
KINDS = (
    Kind(
        group="argoproj.io",
        version="v1alpha1",
        plural="workflows",
        project="Argo Workflows",
        release="4.0.5",
        needed_by="every run",
        always=True,
    ),
    Kind(
        group="kubeflow.org",
        version="v1beta1",
        plural="scheduledworkflows",
        project="Kubeflow Pipelines",
        release="2.17.0",
        needed_by="every schedule",
        always=True,
    ),
    Kind(
        group="serving.kserve.io",
        version="v1beta1",
        plural="inferenceservices",
        project="KServe",
        release="0.17.0",
        needed_by="k8s/addons/serving-kserve and k8s/overlays/gpu",
    ),
    Kind(
        group="trainer.kubeflow.org",
        version="v1alpha1",
        plural="trainjobs",
        project="Kubeflow Trainer",
        release="2.2.0",
        needed_by="k8s/addons/distributed-training and k8s/overlays/gpu",
    ),
    Kind(
        group="trainer.kubeflow.org",
        version="v1alpha1",
        plural="trainingruntimes",
        project="Kubeflow Trainer",
        release="2.2.0",
        needed_by="k8s/addons/distributed-training and k8s/overlays/gpu",
    ),
    Kind(
        group="jobset.x-k8s.io",
        version="v1alpha2",
        plural="jobsets",
        project="JobSet",
        release="0.11.1",
        needed_by="Kubeflow Trainer, so k8s/addons/distributed-training",
    ),
    Kind(
        group="kubeflow.org",
        version="v1",
        plural="tfjobs",
        project="Kubeflow training operator",
        release="1.9.3",
        needed_by="k8s/addons/distributed-training-tfjob",
    ),
)
