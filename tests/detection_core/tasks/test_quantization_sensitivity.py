"""Sensitivity of a detector in its folder; what the float network finds is the truth."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from detection_core.artifacts.coco_names import MAP
from detection_core.artifacts.sensitivity_report import Sensitivity
from detection_core.config.label_map_file import load_label_map
from detection_core.config.load import parse_pipeline_config
from detection_core.errors import ConfigError, DataError
from detection_core.evaluation.runner import load_runner
from detection_core.exporters.detector_folder import write_detector
from detection_core.tasks.quantization_sensitivity import SensitivityOptions, measure_sensitivity
from tests.support.detectors import examples as stored_examples
from tests.support.detectors import trained
from tests.support.record_files import example, write_records
from tests.support.small_detectors import RESIDUAL, small_detector, spoil_residual
from tests.support.tiny_training import config_text, write_examples

IMAGES = 6
SPOILT = tuple(RESIDUAL[:-1])


def write_split(folder: Path, runner=None) -> None:
    """Noise, with what a detector finds in it as ground truth."""
    records, rng = [], np.random.default_rng(1)
    for number in range(IMAGES):
        pixels = rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, "PNG")
        fields = {"image/encoded": [stream.getvalue()], "image/source_id": [str(number).encode()]}
        if runner is not None:
            found = runner(pixels)
            fields["image/object/class/label"] = [int(c) + 1 for c in found.classes]
            for place, name in enumerate(("ymin", "xmin", "ymax", "xmax")):
                fields[f"image/object/bbox/{name}"] = [float(v) for v in found.boxes[:, place]]
        records.append(example(fields))
    folder.mkdir()
    write_records(folder / "examples-00000-of-00001.tfrecord", records)


def measured(model: Path, folder: Path, **options) -> Sensitivity:
    given = SensitivityOptions(**{"examples": 6, **options})
    return measure_sensitivity(str(model), str(folder), given)


@pytest.mark.zoo
def test_the_spoilt_layer_is_first_and_its_part_wins_most_back(tmp_path):
    examples = write_examples(tmp_path / "examples")
    detector = small_detector("ssd")
    spoil_residual(detector.network)
    labels = load_label_map(str(examples / "label_map.pbtxt"))
    write_detector(detector, parse_pipeline_config(config_text()), labels, str(tmp_path / "model"))
    write_split(examples / "Split-eval", load_runner(str(tmp_path / "model")))
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


def test_layers_alone_need_no_split_and_the_noisiest_comes_first():
    found = measured(trained("plain") / "model", stored_examples(), accuracy=False, split="nowhere")
    assert found.accuracy is None and found.examples == 6
    ratios = [layer.own_db for layer in found.layers if layer.own_db is not None]
    assert ratios == sorted(ratios) and len(ratios) > 20
    groups = {"backbone, stride 2", "feature network", "class head", "box head"}
    assert groups <= {layer.group for layer in found.layers}


def test_what_cannot_be_measured_is_refused(tmp_path):
    folder = write_examples(tmp_path / "examples")
    write_split(folder / "Split-empty")
    with pytest.raises(DataError, match="nowhere"):
        measured(trained("plain") / "model", folder, split="nowhere")
    with pytest.raises(ConfigError, match="examples: expected a number from 1, found 0"):
        measured(trained("plain") / "model", folder, examples=0)
    with pytest.raises(DataError, match="empty: expected a split with objects"):
        measured(trained("plain") / "model", folder, split="empty", images=1)
