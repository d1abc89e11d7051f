"""Evaluation of a SavedModel on images."""

import dataclasses
import json
import math

import numpy as np
import pytest

from detection_core.artifacts.coco_names import MAP
from detection_core.data.label_map import label_map_from_names
from detection_core.errors import ConfigError, DataError, ModelError
from detection_core.evaluation.metric_sets import MetricOptions
from detection_core.tasks.evaluate import evaluate
from detection_core.tasks.evaluate_options import EvaluateOptions
from tests.support.blobs import BlobDetector, save, scenes

LABELS = label_map_from_names(["red", "green"])


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save(BlobDetector(), tmp_path_factory.mktemp("model") / "good")


def run(model, folder, truth=None, **options):
    return evaluate(
        model_path=model,
        truth=truth or (lambda: iter(scenes(8))),
        label_map=LABELS,
        evaluation_dir=str(folder / "evaluation"),
        options=EvaluateOptions(**options),
    )


def test_images_are_read_once_to_measure_and_once_to_draw(model, tmp_path):
    reads = []

    def truth():
        reads.append(0)
        for item in scenes(8):
            reads[-1] += 1
            yield item

    report = run(model, tmp_path, truth, pictures=2)
    assert (reads, report.images) == ([8, 8], 8)
    assert report.blessed and report.reasons == ("no thresholds are set",)
    assert len(json.loads((tmp_path / "evaluation/pictures/index.json").read_text())) == 2
    reads.clear()
    run(model, tmp_path, truth, pictures=0)
    assert reads == [8]


def test_pascal_s_metrics_can_carry_a_threshold(model, tmp_path):
    name = "PascalBoxes_Precision/mAP@0.5IOU"
    sets = MetricOptions(sets=("pascal_voc_detection_metrics",))
    report = run(model, tmp_path, metrics=sets, thresholds={name: {"lower_bound": 0.9}})
    assert report.metrics[name] == pytest.approx(1.0) and report.blessed
    with pytest.raises(ConfigError, match="unknown metric 'PascalBoxes"):
        run(model, tmp_path, thresholds={name: {"lower_bound": 0.9}})


def test_detections_of_classes_that_nobody_looked_for_are_left_out_where_asked(model, tmp_path):
    """The detector finds red and green squares; the images' labels say that only red ones were looked for."""
    images = [(image, truth) for image, truth in scenes(8) if len(truth.classes)]

    def only_red():
        for image, truth in images:
            red = truth.classes == 0
            fields = {name: getattr(truth, name)[red] for name in ("boxes", "classes", "is_crowd", "area")}
            flags = {name: getattr(truth, name)[red] for name in ("difficult", "group_of")}
            labelled = np.array([0], np.int32)
            yield image, dataclasses.replace(truth, **fields, **flags, labelled=labelled)

    curves = {}
    for only_labelled in (False, True):
        run(model, tmp_path, only_red, pictures=0, metrics=MetricOptions(only_labelled=only_labelled))
        curves[only_labelled] = json.loads((tmp_path / "evaluation/curves.json").read_text())["classes"]
    red, green = 0, 1
    assert curves[False][green]["false_positives"] > 0
    assert curves[True][green]["false_positives"] == 0
    assert curves[True][red]["found"] == curves[False][red]["found"] > 0


def test_a_split_without_objects_is_never_blessed(model, tmp_path):
    empty = [s for s in scenes(12) if not len(s[1].classes)]
    report = run(model, tmp_path, lambda: iter(empty), thresholds={MAP: {"upper_bound": 1.0}})
    assert report.metrics[MAP] == -1.0 and not report.blessed


def test_no_images_and_a_broken_detector_leave_nothing_behind(model, tmp_path):
    with pytest.raises(DataError, match="found none"):
        run(model, tmp_path, lambda: iter(()))
    broken = save(BlobDetector(score=math.nan), tmp_path / "broken")
    with pytest.raises(ModelError, match="expected finite scores"):
        run(broken, tmp_path)
    assert not (tmp_path / "evaluation").exists()
