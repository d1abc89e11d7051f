"""The manifests of k8s/, and a strict check against the Kubernetes API's own models.

The models of the core kinds are those of the `kubernetes` package; those of the custom kinds are in
data/crd_models.json. A server drops unknown keys; here they are
problems. `make test-cluster` asks a real server.
"""

import functools
import inspect
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from kubernetes.client import models as core

from tests.support.api_models import Model, walk

K8S = Path(__file__).parents[2] / "k8s"
OVERLAYS = sorted(p.name for p in (K8S / "overlays").iterdir())
COMPONENTS = sorted(p.name for p in (K8S / "addons").iterdir())
KUSTOMIZE = {"Kustomization", "Component"}
FILES = sorted(p for folder in ("base", "addons", "overlays") for p in (K8S / folder).rglob("*.yaml"))
# Kind to where the templates of its pods lie.
POD_TEMPLATES = {
    "Deployment": lambda spec: [spec["template"]],
    "CronJob": lambda spec: [spec["jobTemplate"]["spec"]["template"]],
    "TFJob": lambda spec: [replica["template"] for replica in spec["tfReplicaSpecs"].values()],
    "TrainingRuntime": lambda spec: [
        job["template"]["spec"]["template"] for job in spec["template"]["spec"]["replicatedJobs"]
    ],
    "InferenceService": lambda spec: [
        {
            "metadata": {"labels": {"serving.kserve.io/inferenceservice": "detector"}},
            "spec": {**spec["predictor"], "containers": [spec["predictor"]["model"]]},
        }
    ],
}


def documents(*paths):
    """Return the manifests in files, without those that are for kustomize."""
    read = [d for path in paths for d in yaml.safe_load_all(path.read_text()) if d]
    return [d for d in read if d["kind"] not in KUSTOMIZE]


def addon(name):
    """Return the manifests of a file of k8s/addons."""
    return documents(K8S / "addons" / name)


def build(folder):
    """Render a folder with kustomize, by itself or inside kubectl."""
    command = ["kustomize", "build"] if shutil.which("kustomize") else ["kubectl", "kustomize"]
    if not shutil.which(command[0]):
        pytest.skip("neither kustomize nor kubectl is on PATH; the files themselves are checked")
    done = subprocess.run([*command, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [d for d in yaml.safe_load_all(done.stdout) if d]


def write_overlay(folder, components):
    """Write an overlay of the base with some components; paths are relative, as kustomize wants them."""
    folder.mkdir(parents=True, exist_ok=True)
    where = os.path.relpath(K8S, folder.resolve())
    tree = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "namespace": "detflow",
        "resources": [f"{where}/base"], "components": [f"{where}/addons/{c}" for c in components],
    }  # fmt: skip
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(tree))
    return folder


def pod_templates(manifests):
    """Yield (name, template) of everything that makes pods."""
    for m in manifests:
        for template in POD_TEMPLATES.get(m["kind"], lambda spec: [])(m.get("spec", {})):
            yield f"{m['kind']}/{m['metadata']['name']}", template


def pod_specs(manifests):
    """Yield (name, pod spec) of everything that makes pods."""
    for name, template in pod_templates(manifests):
        yield name, template["spec"]


def policies(manifests):
    """Return the network policies among manifests, by name."""
    return {m["metadata"]["name"]: m["spec"] for m in manifests if m["kind"] == "NetworkPolicy"}


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
