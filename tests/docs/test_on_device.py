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
from tests.detection_core.exporters.test_tflite import float_file, integer_file

ROOT = Path(__file__).parents[2]
LABELS = ("apple", "pear", "plum")


@pytest.mark.parametrize("make", [float_file, integer_file])
def test_the_program_for_linux_finds_what_predict_finds(tmp_path, make):
    page = (ROOT / "docs" / "on-device.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "program.py").write_text(code.replace("score >= 0.5", "score >= 0.0"), encoding="utf-8")
    description = TFLiteDescription(name="m", mean=(127.5,) * 3, std=(127.5,) * 3, labels=LABELS)
    model, photo = tmp_path / "m.tflite", tmp_path / "photo.png"
    model.write_bytes(add_description(make(), description))
    pixels = np.random.default_rng(5).integers(0, 256, (32, 32, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(photo)
    command = [sys.executable, "program.py", str(model), str(photo)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120)
    lines = [line for line in done.stdout.splitlines() if line.split(" ")[0] in LABELS]
    expected = load_runner(str(model))(pixels)
    assert len(lines) == len(expected.scores) > 0
    for line, label, score in zip(lines, expected.classes, expected.scores, strict=True):
        assert line.split(" ")[0] == LABELS[int(label)]
        assert float(line.split(" ")[1]) == pytest.approx(float(score), abs=0.0051)
