"""Every notebook runs as it stands, and is kept without outputs."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_has_no_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == [] and cell.execution_count is None


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """Text and pictures that the cells of the quick start give, in their order."""
    (path,) = NOTEBOOKS
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("notebook")))
        notebook = nbformat.read(path, as_version=4)
        folder = str(tmp_path_factory.mktemp("run"))
        NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}}).execute()
    return [
        output.data
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "execute_result"
    ]


@pytest.mark.slow
def test_the_quick_start_learns_its_shapes(outputs):
    texts = [eval(data["text/plain"]) for data in outputs if "image/jpeg" not in data]
    kind, training, metrics, seen, files, small = texts[-6:]
    assert kind[1] == 2 and training[0] == 150
    assert metrics["mAP@.50IOU"] > 0.5
    assert {name for name, _ in seen[0]} <= {"square", "circle"} and seen[0]
    assert set(files) == {"model_float32.tflite", "model_int8.tflite"}
    assert files["model_float32.tflite"][2] and small


@pytest.mark.slow
def test_the_quick_start_shows_a_picture(outputs):
    assert sum("image/jpeg" in data for data in outputs) == 1
