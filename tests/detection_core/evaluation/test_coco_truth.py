"""Files of COCO's tools, evaluated without a detector and images: figures of pycocotools, and refusals."""

import contextlib
import io
import json
from pathlib import Path

import numpy as np
import pytest
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from detection_core.artifacts.evaluation import (
    COCO_METRICS,
    KEYPOINT_METRICS,
    LVIS_METRICS,
    LVIS_SET,
    MASK_METRICS,
)
from detection_core.builders.evaluation_settings import EvaluateOptions
from detection_core.errors import DataError
from detection_core.evaluation.coco_truth import CocoTruth
from detection_core.evaluation.lvis_metrics import evaluate_lvis
from detection_core.evaluation.metric_sets import MetricOptions
from detection_core.tasks.evaluate import evaluate_results, own_config
from tests.support.cases import cases, refused
from tests.support.coco_dictionaries import coco_dictionaries
from tests.support.evaluated_images import NAMES, flagged_images, random_images, shaped_images

SHAPES = {"bbox": "bbox", "segmentation": "segm", "keypoints": "keypoints"}
METRICS = {"bbox": COCO_METRICS, "segmentation": MASK_METRICS, "keypoints": KEYPOINT_METRICS}


def files_of(folder, images, fields, first_id=1):
    """Write ground truth and results of images; boxes are whole numbers, so that overlaps meet thresholds."""
    kinds = [coco_dictionaries(images, NAMES, SHAPES[field]) for field in fields]
    merged = [[dict(a) for a in part["annotations"]] for part in kinds[0]]
    for kind in kinds[1:]:
        for entries, part in zip(merged, kind, strict=True):
            for entry, more in zip(entries, part["annotations"], strict=True):
                entry |= {k: v for k, v in more.items() if k not in ("area", "bbox")}
    truth = kinds[0][0] | {"annotations": merged[0]}
    for entry in [*truth["categories"], *merged[0], *merged[1]]:
        name = "category_id" if "category_id" in entry else "id"
        entry[name] += first_id - 1
        if "bbox" in entry:
            entry["bbox"] = [float(round(value)) for value in entry["bbox"]]
    results = [{k: a[k] for k in ("image_id", "category_id", "score", *fields)} for a in merged[1]]
    paths = [folder / "truth.json", folder / "results.json"]
    for path, content in zip(paths, (truth, results), strict=True):
        path.write_text(json.dumps(content))
    return [str(path) for path in paths]


def figures(truth, results, iou_type):
    with contextlib.redirect_stdout(io.StringIO()):
        ground = COCO(truth)
        engine = COCOeval(ground, ground.loadRes(results), iou_type)
        engine.evaluate()
        engine.accumulate()
        engine.summarize()
    return engine.stats


def measured(tmp_path, truth, results, **options):
    return evaluate_results(results, truth, str(tmp_path / "out"), options=EvaluateOptions(**options)).metrics


@cases("bbox", "segmentation", "keypoints")
def test_figures_are_those_of_pycocotools_on_the_same_file(tmp_path, *, field):
    images = random_images(1) if field == "bbox" else shaped_images(1)[:16]
    truth, results = files_of(tmp_path, images, [field], first_id=0)
    found = measured(tmp_path, truth, results)
    assert list(found) == [*COCO_METRICS, *(METRICS[field] if field != "bbox" else ())]
    expected = figures(truth, results, SHAPES[field])
    np.testing.assert_allclose([found[n] for n in METRICS[field]], expected, rtol=0, atol=5e-16)
    assert 0.01 < expected[0] < 0.9


def test_every_shape_can_carry_a_threshold_and_a_baseline_without_it_is_not_compared(tmp_path):
    truth, results = files_of(tmp_path, shaped_images(2)[:8], list(SHAPES))
    bound = {MASK_METRICS[0]: {"lower_bound": 0.999}, KEYPOINT_METRICS[0]: {"min_change": -0.1}}
    options = EvaluateOptions(thresholds=bound)
    report = evaluate_results(results, truth, str(tmp_path / "out"), baseline=results, options=options)
    assert [verdict.passed for verdict in report.thresholds] == [False, True] and not report.blessed
    assert report.metrics == report.baseline and len(report.metrics) == 12 + 12 + 10
    curves = json.loads((tmp_path / "out" / "curves.json").read_text())
    assert curves["iou_type"] == "segm" and not (tmp_path / "out/pictures/index.jsonl").read_text()
    truth, results = files_of(tmp_path, shaped_images(2)[:4], list(SHAPES))
    entries = json.loads(Path(results).read_text())
    other = tmp_path / "other.json"
    bound = {COCO_METRICS[0]: {"min_change": 0.0}, MASK_METRICS[0]: {"lower_bound": 0.0}}
    for missing, named in (("segmentation", "masks"), ("keypoints", "keypoints")):
        other.write_text(json.dumps([{k: v for k, v in entry.items() if k != missing} for entry in entries]))
        options = EvaluateOptions(thresholds=bound)
        report = evaluate_results(results, truth, str(tmp_path / "out"), baseline=str(other), options=options)
        assert report.reasons[0] == f"not compared with the baseline, which finds no {named}"
        assert report.blessed and report.baseline is None


def test_lvis_s_files_are_measured_as_lvis(tmp_path):
    images = flagged_images(0, ties=True)
    truth, results = files_of(tmp_path, images, ["segmentation"])
    content = json.loads(Path(truth).read_text())
    for entry, image in zip(content["images"], images, strict=True):
        entry["neg_category_ids"] = (image.truth.labelled + 1).tolist()
        entry["not_exhaustive_category_ids"] = (image.truth.not_exhaustive + 1).tolist()
    for entry in content["categories"]:
        entry["frequency"] = "rccff"[entry["id"] - 1]
    Path(truth).write_text(json.dumps(content))
    found = measured(tmp_path, truth, results, metrics=MetricOptions(sets=(LVIS_SET,)))
    frequencies = dict(enumerate(("RARE", "COMMON", "COMMON", "FREQUENT", "FREQUENT")))
    expected = evaluate_lvis(images, NAMES, frequencies)
    assert {n: found[n] for n in LVIS_METRICS} == pytest.approx(expected, abs=1e-12)


IMAGE, CATEGORY = {"id": 7, "height": 20, "width": 30}, {"id": 2, "name": "cat"}
OBJECT = {"id": 5, "image_id": 7, "category_id": 2, "bbox": [1, 2, 10, 10], "area": 100, "iscrowd": 0}
FOUND = {"image_id": 7, "category_id": 2, "bbox": [1, 2, 10, 10], "score": 0.5}


def written(tmp_path, truth, found):
    for name, content in (("truth", truth), ("results", found)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    return str(tmp_path / "truth.json"), str(tmp_path / "results.json")


def with_one(**fields):
    return {"images": [IMAGE], "categories": [CATEGORY], "annotations": [OBJECT]} | fields


RUNS = {"size": [9, 9], "counts": [81]}
WHOLE = "as a whole number of at least"


@cases(
    ("images", {"id": 7, "width": 3}, f"truth.json, image 0: expected height {WHOLE} 1"),
    ("images", 7, "truth.json, image 0: expected id as a whole number"),
    ("categories", {"id": 2}, "category 0: expected a category with id, name and a known frequency"),
    ("categories", {"id": -1, "name": "a"}, f"category 0: expected id {WHOLE} 0, found -1"),
    ("annotations", OBJECT | {"image_id": 8}, "annotation 5: expected the id of a listed image as image_id"),
    ("annotations", OBJECT | {"category_id": 3}, "annotation 5: expected the id of a listed category"),
    ("annotations", OBJECT | {"bbox": [1, 2, 3]}, "annotation 5: expected bbox as 4 finite numbers, found"),
    ("annotations", OBJECT | {"area": "x"}, "annotation 5: expected area as a number"),
    ("annotations", {}, f"annotation None: expected image_id {WHOLE} 0, found None"),
    ("annotations", OBJECT | {"segmentation": RUNS}, "annotation 5: expected segmentation as"),
    ("annotations", OBJECT | {"segmentation": [["a"] * 6]}, "tion 5: expected segmentation as polygons"),
)
def test_ground_truth_that_is_malformed_is_one_error_that_names_the_entry(tmp_path, *, name, entry, message):
    paths = written(tmp_path, with_one(**{name: [entry]}), [FOUND])
    refused(DataError, message, measured, tmp_path, *paths)


def test_a_missing_list_and_detections_of_other_images_and_classes_are_refused(tmp_path):
    for name in ("images", "annotations", "categories"):
        whole = with_one()
        del whole[name]
        refused(DataError, f"a list '{name}', found none", CocoTruth, written(tmp_path, whole, [])[0])
    for change, message in (
        ({"image_id": 8}, "entry 1: expected the id of an evaluated image as image_id, found '8'"),
        ({"category_id": 1}, "entry 1: expected category_id as an id of the ground truth's classes, found 1"),
    ):
        paths = written(tmp_path, with_one(), [FOUND, FOUND | change])
        refused(DataError, message, measured, tmp_path, *paths)
    masks = [FOUND | {"segmentation": {"size": [20, 30], "counts": [600]}}]
    message, paths = "image 7: expected objects with masks", written(tmp_path, with_one(), masks)
    refused(DataError, message, measured, tmp_path, *paths)
    two = [OBJECT | {"keypoints": [1, 2, 2] * count} for count in (1, 2)]
    message = "annotation 5: expected 3 numbers as keypoints, as other objects have, found 6"
    refused(DataError, message, measured, tmp_path, *written(tmp_path, with_one(annotations=two), [FOUND]))


def test_records_are_read_with_the_shapes_that_results_have(tmp_path):
    shapes = {"segmentation": {}, "keypoints": [1, 2, 2] * 4}
    both = ["coco_mask_metrics", "coco_keypoint_metrics"]
    for fields, sets, masks, keypoints in (
        ({}, ["coco_detection_metrics"], False, 0),
        (shapes, both, True, 4),
    ):
        path = written(tmp_path, {}, [FOUND | fields, FOUND])[1]
        config = own_config(path)
        (reader,) = config.eval_input_reader
        assert [s for s in config.eval_config.metrics_set if s in sets] == sets
        assert (reader.load_instance_masks, reader.num_keypoints, reader.num_epochs) == (masks, keypoints, 1)


def test_a_box_is_made_of_the_mask_or_the_keypoints_where_it_is_missing(tmp_path):
    bare = {"image_id": 7, "category_id": 2, "score": 0.5}
    runs = {"size": [20, 30], "counts": [42, 3, 17, 3, 535]}
    points = [3.0, 2.0, 2, 5.0, 9.0, 1]
    for shape, expected in (({"segmentation": runs}, [2, 2, 2, 3]), ({"keypoints": points}, [3, 2, 2, 7])):
        content = with_one(annotations=[OBJECT | {"bbox": expected} | shape])
        truth, results = written(tmp_path, content, [bare | shape])
        assert measured(tmp_path, truth, results)[COCO_METRICS[0]] == pytest.approx(1.0)
    assert measured(tmp_path, *written(tmp_path, with_one(), []))[COCO_METRICS[0]] == 0.0
