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

CRD_MODELS = json.loads((Path(__file__).parent / "data" / "crd_models.json").read_text())["models"]
CUSTOM_KINDS = {
    ("serving.kserve.io/v1beta1", "InferenceService"): "V1beta1InferenceService",
    ("kubeflow.org/v1", "TFJob"): "KubeflowOrgV1TFJob",
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): "TrainerV1alpha1TrainJob",
    ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime"): "TrainerV1alpha1TrainingRuntime",
}
CORE_GROUPS = (
    "v1",
    "apps/v1",
    "batch/v1",
    "policy/v1",
    "rbac.authorization.k8s.io/v1",
    "networking.k8s.io/v1",
)
SCALARS = {"str": str, "int": int, "bool": bool, "float": (int, float), "datetime": str}


@functools.cache
def model(name: str) -> tuple[dict[str, str], frozenset[str]] | None:
    """Return a model's fields (JSON name to type) and the required ones, or None for an unknown name."""
    if name in CRD_MODELS:
        return CRD_MODELS[name]["fields"], frozenset(CRD_MODELS[name]["required"])
    cls = getattr(core, name, None)
    if cls is None:
        return None
    required = set(re.findall(r"Invalid value for `(\w+)`, must not be `None`", inspect.getsource(cls)))
    fields = {cls.attribute_map[a]: t for a, t in cls.openapi_types.items()}
    return fields, frozenset(cls.attribute_map[a] for a in required)


def problems(manifest: dict) -> list[str]:
    """Return what the API would refuse or drop, each line with the field's path."""
    api, kind = manifest.get("apiVersion", ""), manifest.get("kind", "")
    name = CUSTOM_KINDS.get((api, kind)) or (f"V1{kind}" if api in CORE_GROUPS else "")
    if not name or model(name) is None:
        return [f"{api} {kind}: no such kind"]
    return list(_walk(manifest, name, f"{kind}/{manifest.get('metadata', {}).get('name')}"))


def _walk(value, kind, path):
    listed = re.fullmatch(r"list\[(.+)\]", kind)
    mapped = re.fullmatch(r"dict\(str, (.+)\)", kind)
    if kind == "object":
        return
    if listed or mapped:
        expected = list if listed else dict
        if not isinstance(value, expected):
            yield f"{path}: expected a {expected.__name__}, found {value!r}"
            return
        pairs = enumerate(value) if listed else value.items()
        for key, item in pairs:
            yield from _walk(item, (listed or mapped)[1], f"{path}.{key}")
    elif kind in SCALARS:
        if not isinstance(value, SCALARS[kind]) or (isinstance(value, bool) and kind != "bool"):
            yield f"{path}: expected {kind}, found {value!r}"
    else:
        yield from _walk_model(value, kind, path)


def _walk_model(value, kind, path):
    known = model(kind)
    if known is None:
        # A type that the package knows only by name, such as a quantity.
        return
    fields, required = known
    if not isinstance(value, dict):
        yield f"{path}: expected an object ({kind}), found {value!r}"
        return
    for key, item in value.items():
        if key not in fields:
            yield f"{path}.{key}: unknown field of {kind}"
        else:
            yield from _walk(item, fields[key], f"{path}.{key}")
    for key in sorted(required - set(value)):
        yield f"{path}.{key}: missing"
