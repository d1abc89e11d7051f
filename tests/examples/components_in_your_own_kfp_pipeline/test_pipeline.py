import subprocess
import sys
from pathlib import Path

import yaml

from pipeline.kubeflow.kfp_rules import check_package
from tests.support.compiled_rules import find_faults

ROOT = Path(__file__).parents[3]


def test_our_steps_work_in_somebody_elses_pipeline(tmp_path):
    path = tmp_path / "foreign.yaml"
    script = ROOT / "examples" / "components_in_your_own_kfp_pipeline" / "pipeline.py"
    # Away from the checkout and isolated from it: the YAML files are all that it takes of ours.
    subprocess.run([sys.executable, "-I", str(script), str(path)], check=True, cwd=tmp_path, timeout=120)
    check_package(path.read_text())
    spec = yaml.safe_load(path.read_text())
    assert find_faults(spec) == []
    executors = spec["deploymentSpec"]["executors"].items()
    images = {name: e["container"]["image"] for name, e in executors if "container" in e}
    ours = dict.fromkeys(("exec-evaluator", "exec-tflite-exporter"), "detflow:latest")
    assert images == {"exec-train": "their-trainer:1.4", **ours}
    inputs = spec["root"]["dag"]["tasks"]["evaluator"]["inputs"]
    assert inputs["artifacts"]["model"]["taskOutputArtifact"]["producerTask"] == "train"
    assert "baseline" not in inputs["artifacts"]
