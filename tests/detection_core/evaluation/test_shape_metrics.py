"""Metrics of masks and keypoints against pycocotools."""

import dataclasses

import numpy as np
import pytest

from detection_core.artifacts.evaluation import KEYPOINT_METRICS, MASK_METRICS
from detection_core.config.metric_names import check_metric_names, register_metric_set
from detection_core.errors import ConfigError, DataError, ModelError
from detection_core.evaluation.coco_metrics import (
    SHAPE_KINDS,
    coco_dictionaries,
    evaluate_coco,
    keypoint_sigmas,
)
from detection_core.evaluation.evaluated_split import EvaluatedSplit
from detection_core.evaluation.metric_sets import MetricOptions, compute_metrics, known_metrics
from detection_core.evaluation.results import EvaluatedImage
from detection_core.protos.eval_pb2 import EvalConfig
from tests.support.cases import cases, refused
from tests.support.evaluated_images import NAMES, coco_engine, evaluated, shaped_images

MASKS, KEYPOINTS = SHAPE_KINDS.values()
# pycocotools adds 2.2e-16 to the denominator of a precision; nothing else may differ.
LAST_BIT = {"rtol": 0, "atol": 5e-16}


@cases(*range(4))
def test_equal_to_pycocotools(*, seed):
    for count in (17, 5):
        images = shaped_images(seed, count)
        sigmas = None if count == 17 else np.full(5, 0.05)
        for kind in SHAPE_KINDS.values():
            result = evaluate_coco(images, NAMES, kind)
            reference = coco_engine(images, NAMES, kind.iou_type, sigmas)
            assert list(result.metrics()) == list(kind.summaries)
            assert 0.01 < result.metrics()[kind.map_name] < 0.9, "something is found, and something not"
            np.testing.assert_allclose(list(result.metrics().values()), reference.stats, **LAST_BIT)
            np.testing.assert_allclose(result.precision, reference.eval["precision"], **LAST_BIT)
            np.testing.assert_array_equal(result.recall, reference.eval["recall"])
            np.testing.assert_array_equal(result.scores, reference.eval["scores"])


def test_boxes_have_the_same_numbers_beside_shapes_and_names_are_known_before():
    split = EvaluatedSplit(images=tuple(shaped_images(9)), class_names=NAMES)
    options = MetricOptions(sets=tuple(SHAPE_KINDS), per_category=True, groups={"pets": ("cat", "dog")})
    found = compute_metrics(split, options)
    alone = compute_metrics(split, dataclasses.replace(options, sets=()))
    assert alone.items() <= found.items() and set(found) == set(known_metrics(options, NAMES))
    added = [name for name in found if name not in alone]
    assert added[:12] == list(MASK_METRICS)
    wanted = {f"{kind}_PerformanceByCategory/mAP/dog" for kind in ("DetectionMasks", "Keypoints")}
    assert wanted | {"Keypoints_PerformanceBySuperCategory/pets"} < set(added)
    only = MetricOptions(sets=("coco_keypoint_metrics",))
    found = compute_metrics(split, only, ["Keypoints_PerformanceByCategory/mAP/dog"])
    assert list(found)[12:] == [*KEYPOINT_METRICS, "Keypoints_PerformanceByCategory/mAP/dog"]


def test_an_object_s_area_is_that_of_its_record_else_its_mask_s():
    images = shaped_images(3)
    truth, found = coco_dictionaries(images, NAMES, "segm")
    areas = np.concatenate([image.truth.area for image in images])
    masks = [a["area"] for a, area in zip(truth["annotations"], areas, strict=True) if not area]
    assert all(area == int(area) for area in masks) and len(masks) > 20
    assert all(a["area"] == int(a["area"]) for a in found["annotations"])


def test_objects_and_detections_without_shapes_are_refused():
    boxes = evaluated([[0, 0, 1, 1]], [0], [[0, 0, 1, 1]], [0.9], [0])
    shaped = next(image for image in shaped_images(0) if len(image.truth.classes))
    no_detection = dataclasses.replace(boxes, detections=boxes.detections.take(np.zeros(1, bool)))
    for kind, field in ((MASKS, "load_instance_masks"), (KEYPOINTS, "num_keypoints")):
        message = rf"image x: expected objects with .*{field}"
        refused(DataError, message, evaluate_coco, [no_detection], NAMES, kind)
        without = EvaluatedImage(truth=shaped.truth, detections=boxes.detections)
        refused(ModelError, "expected detections with", evaluate_coco, [without], NAMES, kind)
        assert set(evaluate_coco([evaluated([], [], [], [], [])], NAMES, kind).metrics().values()) == {-1.0}
    other = EvaluatedImage(truth=shaped.truth, detections=shaped_images(0, 4)[1].detections)
    refused(ModelError, "found 4 and 17; set num_keypoints", keypoint_sigmas, [other])


def test_thresholds_name_metrics_of_the_sets_that_are_measured():
    for name in (*MASK_METRICS, "DetectionMasks_PerformanceByCategory/mAP/dog"):
        check_metric_names([name], EvalConfig(metrics_set=["coco_mask_metrics"]), "here")
        with pytest.raises(ConfigError, match=r"add coco_mask_metrics to eval_config.metrics_set"):
            check_metric_names([name], EvalConfig(metrics_set=["coco_keypoint_metrics"]), "here")
    for name, prefix in (("coco_mask_metrics", "Own"), ("own", "Keypoints")):
        refused(ValueError, "which is taken", register_metric_set, name, prefix=prefix, compute=dict)
