"""The page on devices: its Python finds in a file what `detflow predict` finds."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from detection_core.artifacts.tflite_metadata import TFLiteDescription
from detection_core.evaluation.runner import load_runner
from detection_core.exporters.tflite_description import add_description
from tests.support.cases import cases
from tests.support.tiny_files import file_of

LABELS = ("apple", "pear", "plum")


@cases("float32", "int8")
def test_the_program_for_linux_finds_what_predict_finds(tmp_path, *, name):
    page = (Path(__file__).parents[2] / "docs" / "on-device.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "program.py").write_text(code.replace("score >= 0.5", "score >= 0.0"), encoding="utf-8")
    description = TFLiteDescription(name="m", mean=(127.5,) * 3, std=(127.5,) * 3, labels=LABELS)
    (tmp_path / "m.tflite").write_bytes(add_description(file_of(name), description))
    pixels = np.random.default_rng(5).integers(0, 256, (32, 32, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    command = [sys.executable, "program.py", "m.tflite", "photo.png"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120)
    rows = [line.split(" ") for line in done.stdout.splitlines() if line.split(" ")[0] in LABELS]
    expected = load_runner(str(tmp_path / "m.tflite"))(pixels)
    assert [row[0] for row in rows] == [LABELS[int(label)] for label in expected.classes] and rows
    assert [float(row[1]) for row in rows] == pytest.approx(expected.scores.tolist(), abs=0.0051)
