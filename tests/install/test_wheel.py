"""A wheel of this checkout, installed by plain pip into an environment with nothing else in it.

`make test-install` runs this: it downloads some 0.7 GB where pip's cache is cold. The variable
DETFLOW_INSTALL_PYTHONS names the interpreters, separated by colons.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import FEW_UPDATES

ROOT = Path(__file__).parents[2]
PYTHONS = [p for p in os.environ.get("DETFLOW_INSTALL_PYTHONS", "").split(":") if p]
pytestmark = [
    pytest.mark.install,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not PYTHONS, reason="make test-install runs it"),
]

MAKE_DATA = """
import json, sys
from PIL import Image
folder = sys.argv[1]
images, annotations = [], []
for i in range(8):
    picture = Image.new("RGB", (64, 64))
    picture.paste((255, 255, 255), (8, 8, 40, 40))
    picture.save(f"{folder}/{i}.png")
    images.append({"id": i, "file_name": f"{i}.png", "width": 64, "height": 64})
    box = {"bbox": [8, 8, 32, 32], "area": 1024, "iscrowd": 0}
    annotations.append({"id": i, "image_id": i, "category_id": 1, **box})
tree = {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "square"}]}
json.dump(tree, open(f"{folder}/all.json", "w"))
"""

MAKE_SPLITS = """
import json, pathlib, random, sys
from PIL import Image
folder, draw = pathlib.Path(sys.argv[1]), random.Random(1)
(folder / "images").mkdir()
for split, count in {"train": 12, "eval": 4, "test": 4}.items():
    images, annotations = [], []
    for i in range(count):
        x, y, side = draw.randrange(40), draw.randrange(40), draw.randrange(20, 50)
        picture = Image.frombytes("L", (96, 96), draw.randbytes(96 * 96)).convert("RGB")
        picture.paste((255, 0, 0), (x, y, x + side, y + side))
        picture.save(folder / "images" / f"{split}{i}.png")
        images.append({"id": i, "file_name": f"{split}{i}.png", "width": 96, "height": 96})
        box = {"bbox": [x, y, side, side], "area": side * side, "iscrowd": 0}
        annotations.append({"id": i, "image_id": i, "category_id": 1, **box})
    tree = {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "square"}]}
    (folder / f"{split}.json").write_text(json.dumps(tree))
"""
SPLITS = {s: {"annotations": f"{s}.json", "images": "images"} for s in ("train", "eval", "test")}
SHORT_RUN = (
    f"data.splits={json.dumps(SPLITS)}",
    "data.format=coco",
    "model.ssd.image_resizer={fixed_shape_resizer {height: 96 width: 96}}",
    "model.ssd.num_classes=1",
    *FEW_UPDATES,
    "export.representative_examples=4",
)


def run(*command, code=0, cwd=None):
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment |= {"TF_CPP_MIN_LOG_LEVEL": "3", "KUBECONFIG": "/none"}
    words = list(map(str, command))
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, cwd=cwd)
    assert done.returncode == code, f"{words}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build from what the repository holds, so that nothing left in build/ gets in."""
    source, output = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.check_output(command, cwd=ROOT, text=True).split("\0"):
        if name and (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    pip = (sys.executable, "-m", "pip", "wheel")
    run(*pip, "--no-deps", "--no-build-isolation", "-w", output, source)
    (path,) = output.glob("*.whl")
    return path


@pytest.fixture(scope="module", params=PYTHONS, ids=lambda path: Path(path).name)
def python(request, wheel, tmp_path_factory):
    """Install the core, and nothing but it."""
    folder = tmp_path_factory.mktemp("environment")
    run(request.param, "-m", "venv", folder)
    interpreter = folder / "bin" / "python"
    run(interpreter, "-m", "pip", "install", "--quiet", wheel)
    return interpreter


def detflow(python, *arguments, code=0, cwd=None):
    return run(python.with_name("detflow"), *arguments, code=code, cwd=cwd)


def test_the_core_installs_with_model_maker_s_names_and_without_tfx_and_kfp(python, tmp_path):
    listed = json.loads(run(python, "-m", "pip", "list", "--format=json").split("\n")[0])
    names = {package["name"].lower().replace("_", "-") for package in listed}
    assert {"detflow", "tensorflow", "apache-beam"} <= names
    assert not {"tfx", "kfp", "ml-metadata"} & names
    run(python, "-m", "pip", "check")
    code = (
        "from detflow import model_spec, object_detector, quantization\n"
        "from detflow.config import ExportFormat, QuantizationConfig\n"
        "print(model_spec.get('efficientdet_lite0').config.image_size, object_detector.__file__)"
    )
    said = run(python, "-c", code, cwd=tmp_path)
    assert "(320, 320)" in said and "site-packages" in said


def test_the_core_trains_and_looks_after_itself(python, tmp_path):
    assert "detflow 0." in detflow(python, "--version")
    findings = json.loads(detflow(python, "doctor", "--json"))
    assert findings["healthy"], findings
    run(python, "-c", MAKE_DATA, tmp_path)
    parts = json.dumps({s: {"annotations": "all.json", "images": ""} for s in ("train", "eval")})
    step = (python, "-m", "components.example_gen", "--examples", tmp_path / "examples")
    run(*step, "--data_path", tmp_path, "--splits", parts, "--data_format", "coco", cwd=tmp_path)
    short = ("train_config.num_steps=2", "train_config.batch_size=2", "model.ssd.num_classes=1")
    train = ["train", f"--config={ROOT}/examples/digits/pipeline.config", *(f"--set={s}" for s in short)]
    detflow(python, *train, f"--examples={tmp_path}/examples", f"--output={tmp_path}/t")
    assert (tmp_path / "t" / "model").is_dir()


def test_a_workflow_runs_without_tfx_and_a_second_time_from_the_cache(python, tmp_path):
    """With the settings and the commands of a machine that has TFX; quantization and int8 are in it."""
    settings, workspace = ROOT / "examples" / "digits" / "settings.yaml", tmp_path / "workspace"
    run(python, "-c", MAKE_SPLITS, tmp_path)
    sets = (f"workspace={workspace}", f"data.path={tmp_path}", *SHORT_RUN)

    def states():
        said = detflow(python, "run", settings, *(f"--set={s}" for s in sets), "--json")
        found, _ = json.JSONDecoder().raw_decode(said)  # the log follows
        assert found["status"] == "succeeded" and Path(found["places"]["report"]).is_file()
        return {step["id"]: step["state"] for step in found["steps"]}, found

    steps, found = states()
    assert set(steps.values()) == {"executed"} and {"trainer", "quantized_evaluator", "pusher"} <= set(steps)
    assert found["pushed"]["pushed"] and (workspace / "pushed" / "current.json").is_file()
    assert found["models"][-1]["model"].endswith(".tflite")
    steps, again = states()
    assert set(steps.values()) == {"cached"} and again["pushed"]["version"] == found["pushed"]["version"]
    assert detflow(python, "runs", "list", workspace).count("succeeded") == 2
    detflow(python, "report", workspace, "--output", tmp_path / "report.html")
    assert "trainer" in (tmp_path / "report.html").read_text()


def test_what_an_extra_is_missing_for_says_how_to_get_it_and_that_works_as_it_is_written(python, tmp_path):
    assert "docs/index.md" in detflow(python, "doctor"), "how to install TFX"
    settings, package = ROOT / "examples" / "kubeflow" / "settings.yaml", tmp_path / "pipeline.yaml"
    said = detflow(python, "compile", settings, "-o", package, code=2)
    (advice,) = re.findall(r"`pip install '(.*?)'`", said)
    assert advice == "detflow[cluster]"
    run(python, "-m", "pip", "install", "--quiet", advice)
    run(python, "-m", "pip", "check")
    detflow(python, "compile", settings, "-o", package)
    assert package.read_text().startswith("# PIPELINE DEFINITION")
