"""Every notebook runs as it stands, and is kept without outputs."""

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.cases import cases

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@cases(*NOTEBOOKS)
def test_a_notebook_has_no_outputs(*, path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code_cells(notebook))


def run(name, tmp_path_factory):
    """Run a notebook; return the text and pictures that its cells give, in their order."""
    path = ROOT / "examples" / "notebooks" / name
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("notebook")))
        notebook = nbformat.read(path, as_version=4)
        folder = str(tmp_path_factory.mktemp("run"))
        NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}}).execute()
    outputs = [output for cell in code_cells(notebook) for output in cell.outputs]
    return [output.data for output in outputs if output.output_type == "execute_result"]


@pytest.mark.zoo
def test_the_quick_start_learns_its_shapes_and_shows_a_picture(tmp_path_factory):
    outputs = run("quickstart.ipynb", tmp_path_factory)
    assert sum("image/jpeg" in data for data in outputs) == 1
    texts = [eval(data["text/plain"]) for data in outputs if "image/jpeg" not in data]
    kind, training, metrics, seen, files, small = texts[-6:]
    assert kind[1] == 2 and training[0] == 150 and metrics["mAP@.50IOU"] > 0.5
    assert {name for name, _ in seen[0]} <= {"square", "circle"} and seen[0]
    forms = ("float32", "float32_headless", "int8", "int8_headless")
    assert set(files) == {f"model_{form}.tflite" for form in forms}
    assert files["model_float32.tflite"][2] and small


@pytest.mark.zoo
def test_model_maker_s_calls(tmp_path_factory):
    found = run("model_maker.ipynb", tmp_path_factory)
    assert sum("image/png" in data for data in found) == 1
    texts = [eval(data["text/plain"]) for data in found if "image/png" not in data]
    boxes, data, metrics, files, drop, smaller, seen = texts
    assert boxes == 100 and data == (32, 8, 8, {1: "one", 2: "zero"})
    assert {"AP", "AP50", "ARmax100", "AP_/zero", "AP_/one"} <= set(metrics)
    assert files == ["labels.txt", "model.tflite", "saved_model"]
    assert -1 <= drop <= 1 and smaller and seen


def test_the_notebook_imports_what_model_maker_s_tutorial_does():
    notebook = nbformat.read(ROOT / "examples" / "notebooks" / "model_maker.ipynb", as_version=4)
    lines = "\n".join(cell.source for cell in code_cells(notebook)).splitlines()
    assert [line for line in lines if "detflow" in line] == [
        "from detflow import model_spec, object_detector",
        "from detflow.config import ExportFormat, QuantizationConfig",
    ]
