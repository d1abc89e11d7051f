import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

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
