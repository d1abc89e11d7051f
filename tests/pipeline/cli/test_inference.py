"""The verbs that run detectors, on detectors that find bright squares."""

from __future__ import annotations

import json

import pytest
from PIL import Image

from pipeline.cli import main
from tests.components.evaluator.test_run import save_model
from tests.detection_core.evaluation.blobs import BlobDetector, scenes


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    return [save_model(BlobDetector(score=score), root / str(score)) for score in (0.9, 0.7)]


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "scene.png"
    Image.fromarray(scenes(1)[0][0]).save(path)
    return str(path)


def test_several_detectors_are_fused_and_the_ensemble_can_be_used_again(models, image, tmp_path, capsys):
    both = [word for model in models for word in ("--model", model)]
    assert main(["predict", *both, image, "--output", str(tmp_path / "out"), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert [d["score"] for d in found["detections"]] == [pytest.approx(0.8)]
    again = ["predict", "--model", str(tmp_path / "out" / "ensemble"), image, "--output", str(tmp_path / "2")]
    assert main([*again, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["detections"] == found["detections"]


def test_one_detector_makes_no_ensemble(models, image, tmp_path):
    assert main(["predict", "--model", models[0], image, "--output", str(tmp_path / "out")]) == 0
    assert not (tmp_path / "out" / "ensemble").exists()
