"""Files compared with the SavedModel they came from, with detectors that really find something."""

import dataclasses

import numpy as np
import pytest

from detection_core.allowed_values import TFLITE_FORMS
from detection_core.artifacts.evaluation import MAP_50
from detection_core.artifacts.tflite_provenance import Provenance
from detection_core.config.input_paths import point_at_examples
from detection_core.config.label_map_file import load_label_map
from detection_core.data.label_map import format_label_map, label_map_from_names
from detection_core.data.resize import FixedShapeResizer
from detection_core.errors import DataError
from detection_core.exporters.tflite_formats import FORMATS
from detection_core.ops.tile_options import TileOptions
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.tasks.exporting.parity import Candidate, TFLiteExportOptions, measure_parity
from tests.support.blobs import BlobDetector, save, scenes, write_examples
from tests.support.cases import refused
from tests.support.evaluated_images import make_truth
from tests.support.served_requests import save_served
from tests.support.tiny_detector import TinyDetector
from tests.support.tiny_files import FORMATS_OF_ITS_WEIGHTS, described, function_of, network

pytestmark = pytest.mark.slow

OPTIONS = TFLiteExportOptions(split="eval", max_map_drop=0.02, latency_runs=0)
TWO = ("float32", "int8")
FEW = {"post_process": TWO, "plain_nms": TWO, "headless": FORMATS_OF_ITS_WEIGHTS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("parity")
    write_examples(root, "eval", scenes(8))
    write_examples(root, "empty", [pair for pair in scenes(8) if not pair[1].classes.size])
    save(BlobDetector(), root / "good")
    save(BlobDetector(shift=0.2), root / "worse")
    save(BlobDetector(shift=0.05), root / "off")
    return root


def parity(folder, *names: str, split: str = "eval", options: TFLiteExportOptions = OPTIONS):
    config = point_at_examples(TrainEvalPipelineConfig(), str(folder), eval_split=split)
    candidates = [Candidate(path=str(folder / name), origin=Provenance(format="float32")) for name in names]
    label_map = load_label_map(str(folder / "label_map.pbtxt"))
    return measure_parity(str(folder / "good"), candidates, config, label_map, options)


def test_an_equal_file_passes_unless_it_costs_too_much(folder):
    refused(DataError, "expected a split with objects", parity, folder, "good", split="empty")
    report = parity(folder, "good")
    assert report.blessed and report.images == 8 and report.reference[MAP_50] == pytest.approx(1.0)
    (file,) = report.files
    assert file.drop == 0.0 and file.passed and file.metrics == report.reference
    assert file.score_threshold > 0 and file.size_bytes > 1000 and file.latency_ms == {}
    limits = {"float32": {"size_mb": 0.000001}}
    report = parity(folder, "good", options=dataclasses.replace(OPTIONS, limits=limits))
    (file,) = report.files
    assert not report.blessed and not file.passed and file.drop == 0.0
    (reason,) = report.reasons
    assert reason.startswith("good: size_mb") and reason.endswith("is more than 1e-06")
    both = parity(folder, "worse", options=dataclasses.replace(OPTIONS, limits=limits))
    assert ["mAP@.50" in reason for reason in both.reasons] == [True, False]
    wide = dataclasses.replace(OPTIONS, limits={"float32": {"size_mb": 1000.0}})
    assert parity(folder, "good", options=wide).blessed


def test_parity_is_measured_in_tiles_where_the_options_say_so(folder, tmp_path):
    """Two squares of a colour in an image, which the detector tells apart in tiles only."""
    boxes = [[0.1, 0.1, 0.2, 0.2], [0.7, 0.7, 0.8, 0.8]]
    image = np.zeros((100, 100, 3), np.uint8)
    image[10:20, 10:20, 0] = image[70:80, 70:80, 0] = 255
    write_examples(tmp_path, "eval", [(image, make_truth(boxes, [0, 0], height=100, width=100))])
    (tmp_path / "good").symlink_to(folder / "good")
    assert parity(tmp_path, "good").reference[MAP_50] == 0.0
    tiles = dataclasses.replace(OPTIONS, tiles=TileOptions(size=50, overlap=0.0))
    report = parity(tmp_path, "good", options=tiles)
    assert report.blessed and report.reference[MAP_50] == report.files[0].metrics[MAP_50] > 0.6


def test_one_worse_file_refuses_all_and_is_named(folder):
    report = parity(folder, "good", "worse")
    assert not report.blessed and [file.passed for file in report.files] == [True, False]
    drop = report.files[1].drop
    assert report.files[1].score_threshold == 0  # nothing was found, so that nothing is hidden
    assert drop == pytest.approx(1.0 - report.files[1].metrics[MAP_50], abs=1e-6) and drop > 0.5
    (reason,) = report.reasons  # of the file that failed, not of the good one beside it
    assert reason.startswith("worse: mAP@.50") and "more than 0.0200" in reason
    assert parity(folder, "worse", options=dataclasses.replace(OPTIONS, max_map_drop=1.0)).blessed


def test_the_drop_has_an_interval_and_a_verdict_within_the_noise_says_so(folder):
    (same,) = parity(folder, "good").files
    assert same.drop_interval == (0.0, 0.0) and not same.within_noise
    (file,) = parity(folder, "off").files
    low, high = file.drop_interval
    assert 0.02 < file.drop < 1.0 and low < file.drop < high
    (worse,) = (lost := parity(folder, "worse")).files
    assert worse.drop_interval == (1.0, 1.0) and "noise" not in lost.reasons[0]
    # A bound inside of the interval: eight images do not tell on which side of it the drop is.
    for bound, word in ((file.drop - 0.001, "more than"), (file.drop + 0.001, "within")):
        near = parity(folder, "off", options=dataclasses.replace(OPTIONS, max_map_drop=bound))
        assert near.files[0].within_noise and near.blessed is (word == "within")
        (reason,) = near.reasons
        assert f"{word} {bound:.4f}, which is within the noise of 8 images (95 % interval " in reason


@pytest.fixture(scope="module")
def tiny(folder):
    path = str(folder / "tiny")
    save_served(TinyDetector(), FixedShapeResizer(height=32, width=32), path)
    (folder / "three.pbtxt").write_text(format_label_map(label_map_from_names(["red", "green", "blue"])))
    return path


def gate_of_tiny(folder, tiny, form, formats):
    """Let the stored files of the tiny detector through the gate."""
    candidates = []
    for name in formats:
        integer, path = FORMATS[name].integer, folder / f"{form}-{name}.tflite"
        path.write_bytes(described(name, form))
        made_of = {"function": function_of(integer, form), "network": network(integer)}
        made_of |= {"origin": Provenance(format=name), "max_detections": 10}
        candidates.append(Candidate(path=str(path), **made_of))
    config = point_at_examples(TrainEvalPipelineConfig(), str(folder), eval_split="eval")
    labels = load_label_map(str(folder / "three.pbtxt"))
    report = measure_parity(tiny, candidates, config, labels, dataclasses.replace(OPTIONS, max_map_drop=2.0))
    assert [file.format for file in report.files] == list(formats)
    for file in report.files:
        assert file.passed and file.apart == [], file
        assert set(file.network.heads) == {"box_codes", "class_logits"} and not file.network.unmatched
        assert len(file.network.layers) >= 9 and file.network.noisiest.db >= file.network.least_db
    assert report.blessed


@pytest.mark.parametrize("form", TFLITE_FORMS)
def test_files_of_each_form_and_of_each_format_pass(folder, tiny, form):
    gate_of_tiny(folder, tiny, form, FEW[form])


@pytest.mark.zoo
@pytest.mark.parametrize("form", ["post_process", "plain_nms"])
def test_files_of_each_format_pass_in_the_other_forms_too(folder, tiny, form):
    gate_of_tiny(folder, tiny, form, [name for name in FORMATS_OF_ITS_WEIGHTS if name not in FEW[form]])
