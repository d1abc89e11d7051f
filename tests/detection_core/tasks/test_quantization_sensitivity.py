"""Sensitivity of a detector in its folder; what the float network finds is the truth."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from detection_core.artifacts.evaluation import MAP
from detection_core.artifacts.quantization import Sensitivity
from detection_core.config.load import parse_pipeline_config
from detection_core.errors import ConfigError, DataError
from detection_core.evaluation.runner import load_runner
from detection_core.exporters.detector_folder import write_detector
from detection_core.tasks.quantization_sensitivity import SensitivityOptions, measure_sensitivity
from tests.support.blobs import LABELS
from tests.support.blobs import write_examples as write_scenes
from tests.support.cases import refused
from tests.support.detectors import examples as stored_examples
from tests.support.detectors import trained
from tests.support.small_detectors import RESIDUAL, small_detector, spoil_residual
from tests.support.tiny_training import config_text, write_examples

IMAGES = 6
SPOILT = tuple(RESIDUAL[:-1])


def write_split(folder, split, runner=None):
    """Noise, with what a detector finds in it as ground truth."""
    noise = np.random.default_rng(1).integers(0, 256, (IMAGES, 64, 64, 3), dtype=np.uint8)
    nothing = SimpleNamespace(classes=[], boxes=np.zeros((0, 4)), source_id="")
    found = [runner(pixels, str(number)) if runner else nothing for number, pixels in enumerate(noise)]
    write_scenes(folder, split, list(zip(noise, found, strict=True)))


def measured(model: Path, folder: Path, **options) -> Sensitivity:
    return measure_sensitivity(str(model), str(folder), SensitivityOptions(**{"examples": 6, **options}))


@pytest.mark.zoo
def test_the_spoilt_layer_is_first_and_its_part_wins_most_back(tmp_path):
    detector = small_detector("ssd")
    spoil_residual(detector.network)
    write_detector(detector, parse_pipeline_config(config_text()), LABELS, str(tmp_path / "model"))
    examples = write_examples(tmp_path / "examples")
    # The split brings the label map of its texts with it.
    write_split(examples, "eval", load_runner(str(tmp_path / "model")))
    found = measured(tmp_path / "model", examples, images=0)
    assert found.layers[0].layer.startswith(SPOILT) and found.examples == 6
    ratios = [layer.own_db for layer in found.layers if layer.own_db is not None]
    assert ratios == sorted(ratios) and len(ratios) > 100
    accuracy = found.accuracy
    assert (accuracy.split, accuracy.images) == ("eval", IMAGES)
    before = accuracy.quantized_metrics[MAP]
    assert accuracy.float_metrics[MAP] > before + 0.1
    best = max(accuracy.groups, key=lambda group: group.gained)
    assert best.group == found.layers[0].group and best.gained > 0.05
    for group in accuracy.groups:
        assert group.gained == pytest.approx(group.metrics[MAP] - before, abs=1e-6)
    assert sum(group.layers for group in accuracy.groups) > len(found.layers)


@pytest.mark.slow
def test_layers_alone_need_no_split_and_the_accuracy_one_with_objects(tmp_path):
    found = measured(trained("plain") / "model", stored_examples(), accuracy=False, split="nowhere")
    assert found.accuracy is None and found.examples == 6
    ratios = [layer.own_db for layer in found.layers if layer.own_db is not None]
    assert ratios == sorted(ratios) and len(ratios) > 20
    groups = {"backbone, stride 2", "feature network", "class head", "box head"}
    assert groups <= {layer.group for layer in found.layers}
    accuracy = measured(trained("plain") / "model", stored_examples(), images=2, examples=1).accuracy
    assert (accuracy.split, accuracy.images) == ("eval", 2) and groups <= {g.group for g in accuracy.groups}
    for group in accuracy.groups:
        gained = group.metrics[MAP] - accuracy.quantized_metrics[MAP]
        assert group.gained == pytest.approx(gained, abs=1e-6)
    write_split(tmp_path / "examples", "empty")
    folder = write_examples(tmp_path / "examples")
    refused(DataError, "nowhere", measured, trained("plain") / "model", folder, split="nowhere")
    with pytest.raises(ConfigError, match="examples: expected a number from 1, found 0"):
        measured(trained("plain") / "model", folder, examples=0)
    with pytest.raises(DataError, match="empty: expected a split with objects"):
        measured(trained("plain") / "model", folder, split="empty", images=1, examples=1)
