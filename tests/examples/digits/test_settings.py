"""The workflows of the digits, as a cluster runs them."""

from pathlib import Path

import yaml

from detection_core.config.load import load_pipeline_config
from detection_core.detectors.family import family_name
from tests.support.command_line import CommandLine
from tests.support.compiled import with_short_stack

FOLDER = Path(__file__).parents[3] / "examples" / "digits"
SETTINGS = {
    "settings.yaml": "ssd",
    "efficientdet_lite0.yaml": "efficientdet",
    "keypoints.yaml": "center_net",
    "masks.yaml": "faster_rcnn",
}
WITH_FILES = {"quantization-rewriter", "quantized-evaluator", "tflite-exporter"}


def test_each_compiles_for_a_cluster_with_the_steps_that_its_family_has(tmp_path, capsys):
    files = {path.name for path in FOLDER.glob("*.yaml") if "workspace:" in path.read_text(encoding="utf-8")}
    assert files == set(SETTINGS)
    for name, family in SETTINGS.items():
        settings, package = FOLDER / name, tmp_path / name
        text = yaml.safe_load(settings.read_text(encoding="utf-8"))
        assert family_name(load_pipeline_config(str(FOLDER / text["model"]["config"])).model) == family
        words = ("compile", settings, "-o", package, "--set", "workspace=gs://bucket/w")
        with_short_stack(CommandLine(capsys), *words)
        (pipeline, *_) = yaml.safe_load_all(package.read_text(encoding="utf-8"))
        steps = set(pipeline["root"]["dag"]["tasks"])
        assert {"example-gen", "trainer", "evaluator", "pusher"} <= steps, name
        assert steps & WITH_FILES == (set() if family == "faster_rcnn" else WITH_FILES), name
        assert all(metric in package.read_text(encoding="utf-8") for metric in text["evaluate"]["thresholds"])
