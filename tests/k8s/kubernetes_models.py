"""Strict check of a manifest against the Kubernetes API's own models: unknown key, wrong type, missing field.

The models of the core kinds are those of the `kubernetes` package; those of the custom kinds are facts in
data/crd_models.json. Unlike a server, which drops what it does not know, everything unknown is a problem.
`make test-cluster` asks a real server.
"""

import functools
import inspect
import json
import re
from pathlib import Path

from kubernetes.client import models as core

from tests.support.api_models import Model, walk

CRD_MODELS = json.loads((Path(__file__).parent / "data" / "crd_models.json").read_text())["models"]
CUSTOM_KINDS = {
    ("serving.kserve.io/v1beta1", "InferenceService"): "V1beta1InferenceService",
    ("kubeflow.org/v1", "TFJob"): "KubeflowOrgV1TFJob",
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): "TrainerV1alpha1TrainJob",
    ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime"): "TrainerV1alpha1TrainingRuntime",
}
_GROUPS = ("rbac.authorization.k8s.io/v1", "networking.k8s.io/v1")
CORE_GROUPS = ("v1", "apps/v1", "batch/v1", "policy/v1", *_GROUPS)


@functools.cache
def model(name: str) -> Model | None:
    """Return a model, or None for an unknown name."""
    if name in CRD_MODELS:
        return Model(CRD_MODELS[name]["fields"], frozenset(CRD_MODELS[name]["required"]))
    cls = getattr(core, name, None)
    if cls is None:
        return None
    required = set(re.findall(r"Invalid value for `(\w+)`, must not be `None`", inspect.getsource(cls)))
    fields = {cls.attribute_map[a]: t for a, t in cls.openapi_types.items()}
    return Model(fields, frozenset(cls.attribute_map[a] for a in required))


def problems(manifest: dict) -> list[str]:
    """Return what the API would refuse or drop, each line with the field's path."""
    api, kind = manifest.get("apiVersion", ""), manifest.get("kind", "")
    name = CUSTOM_KINDS.get((api, kind)) or (f"V1{kind}" if api in CORE_GROUPS else "")
    if not name or model(name) is None:
        return [f"{api} {kind}: no such kind"]
    where = f"{kind}/{manifest.get('metadata', {}).get('name')}"
    return [": ".join(problem) for problem in walk(manifest, name, where, find=model)]
