"""Metric sets of masks, groups and verified classes against the tools that define them.

`flagged_images_metrics.json` has the numbers of `flagged_images(seed)`. Those of LVIS come from lvis 0.5.3
with frequencies r, c, c, f, f; the others from the Object Detection API's evaluators of July 2021. These sort
equal scores in no fixed order, so only LVIS's images have them.
"""

import dataclasses
import itertools
import json
import math
import re

import numpy as np
import pytest

from detection_core.artifacts.evaluation import LVIS_METRICS, LVIS_SET, MASK_METRICS, TIDE_METRICS
from detection_core.config.metric_names import MASK_SETS, SET_PREFIXES, check_metric_names
from detection_core.data.label_map import LabelMap, LabelMapItem
from detection_core.errors import ConfigError, DataError, ModelError
from detection_core.evaluation.curves import confusion_matrix, make_curves
from detection_core.evaluation.evaluated_split import EvaluatedSplit
from detection_core.evaluation.lvis_metrics import evaluate_lvis
from detection_core.evaluation.measure import split_to_measure
from detection_core.evaluation.metric_sets import (
    VOC_SETS,
    MetricOptions,
    compute_metrics,
    known_metrics,
)
from detection_core.evaluation.results import EvaluatedImage
from detection_core.evaluation.voc_metrics import VocOptions, evaluate_voc
from detection_core.ops.mask_runs import encode_masks, mask_areas, mask_iou
from detection_core.protos.eval_pb2 import EvalConfig
from tests.support.cases import refused
from tests.support.evaluated_images import DATA, NAMES, evaluated, flagged_images

GOLDENS = json.loads((DATA / "flagged_images_metrics.json").read_text())
FREQUENCIES = dict(enumerate(("RARE", "COMMON", "COMMON", "FREQUENT", "FREQUENT")))
ITEMS = tuple(LabelMapItem(id=c + 1, name=NAMES[c], frequency=FREQUENCIES[c]) for c in NAMES)
LABEL_MAP = LabelMap(items=ITEMS)


@pytest.fixture(scope="module")
def images():
    kinds = itertools.product(range(3), (False, True))
    return {(seed, ties): tuple(flagged_images(seed, ties=ties)) for seed, ties in kinds}


@pytest.mark.parametrize("name", sorted({key.split()[0] for key in GOLDENS}))
def test_figures_and_names_are_those_of_the_published_tools(images, name):
    options = MetricOptions(sets=(name,), recall_bounds=(0.2, 0.8))
    for key, expected in GOLDENS.items():
        if key.split()[0] != name:
            continue
        chosen = images[int(key[-1]), name == LVIS_SET]
        found = compute_metrics(split_to_measure(chosen, LABEL_MAP, options), options)
        assert list(found)[12:] == list(expected) and set(found) <= set(known_metrics(options, NAMES))
        values = [math.nan if value is None else value for value in expected.values()]
        np.testing.assert_allclose(list(found.values())[12:], values, rtol=0, atol=1e-9, err_msg=key)
        assert 0 < values[0] < 1


def test_every_set_of_flags_and_masks_is_compared():
    assert {key.split()[0] for key in GOLDENS} == {*VOC_SETS, LVIS_SET}
    with_masks = {n for n in VOC_SETS if VOC_SETS[n](MetricOptions()).masks}
    assert MASK_SETS - {LVIS_SET, "coco_mask_metrics", "tide_mask_metrics"} == with_masks
    assert LABEL_MAP.frequencies == FREQUENCIES


def blocks(*rectangles):
    masks = np.zeros((len(rectangles), 20, 20), bool)
    for mask, (top, left, bottom, right) in zip(masks, rectangles, strict=True):
        mask[top:bottom, left:right] = True
    return encode_masks(masks)


def masked(image, true, found):
    truth = dataclasses.replace(image.truth, masks=blocks(*true))
    return EvaluatedImage(truth=truth, detections=dataclasses.replace(image.detections, masks=blocks(*found)))


def test_an_object_without_a_mask_hides_one_detection_and_one_with_an_empty_box_is_left_out():
    left, right = [0, 0, 1, 0.5], [0, 0.5, 1, 1]
    found = [left, right, right], [0.9, 0.8, 0.7], [0] * 3
    image = evaluated([left, right], [0, 0], *found, height=20, width=20)
    half, other = (0, 0, 20, 10), (0, 10, 20, 20)
    options = VocOptions(masks=True)
    for true, expected in (([half, other], 1.0), ([half, (0, 0, 0, 0)], 1.0), ([(0, 0, 0, 0), other], 0.5)):
        # In the last case the first detection is hidden, the second hits, or is second to none.
        found = [half, other, other] if expected == 1.0 else [half, half, other]
        assert evaluate_voc([masked(image, true, found)], {0: "cat"}, options)[options.map_name] == expected
    image = evaluated([[0, 0, 1, 1]], [0], [[0.5, 0, 0.5, 1], [0, 0, 1, 1]], [0.9, 0.8], [0, 0])
    assert evaluate_voc([image], {0: "cat"}, VocOptions())[VocOptions().map_name] == 1.0


def test_lvis_counts_what_was_verified_and_takes_unknown_frequencies_for_none():
    box, mask = [0, 0, 1, 1], (0, 0, 20, 20)
    image = evaluated([box], [0], [box, box], [0.8, 0.9], [0, 1], height=20, width=20)
    image = masked(image, [mask], [mask] * 2)
    alone = dataclasses.replace(image, truth=image.truth.take(np.zeros(1, bool)))
    found = evaluate_lvis([image], {0: "cat", 1: "dog"}, {})
    assert found["DetectionMasks_AP"] == pytest.approx(1.0) and found["DetectionMasks_APr"] == -1.0
    some, all_of_it = {"labelled": [0]}, {"labelled": [0], "not_exhaustive": [0]}
    for fields, expected in (({}, 1.0), (some, 0.5), (all_of_it, 1.0)):
        arrays = {name: np.array(value, np.int32) for name, value in fields.items()}
        first = dataclasses.replace(alone, truth=dataclasses.replace(alone.truth, **arrays))
        assert evaluate_lvis([first, image], {0: "cat"}, {})["DetectionMasks_AP"] == pytest.approx(expected)
    assert set(evaluate_lvis([alone], NAMES, {}).values()) == {-1.0}


def test_sets_of_masks_refuse_boxes():
    boxes = evaluated([[0, 0, 1, 1]], [0], [[0, 0, 1, 1]], [0.9], [0])
    no_detection = dataclasses.replace(boxes, detections=boxes.detections.take(np.zeros(1, bool)))
    no_object = dataclasses.replace(boxes, truth=boxes.truth.take(np.zeros(1, bool)))
    for name in MASK_SETS:
        options = MetricOptions(sets=(name,))
        for image, error in ((no_detection, DataError), (no_object, ModelError)):
            split = EvaluatedSplit(images=(image,), class_names=NAMES)
            refused(error, "image x: expected .* with masks", compute_metrics, split, options)


def test_counts_and_confusion_compare_masks_where_these_are_evaluated():
    """All boxes are the same, but each detection has the mask of the other object."""
    box, upper, lower = [0, 0, 1, 1], (0, 0, 10, 20), (10, 0, 20, 20)
    image = evaluated([box, box], [0, 1], [box, box], [0.9, 0.8], [0, 1], height=20, width=20)
    image = masked(image, [upper, lower], [lower, upper])
    for sets in ((), ("coco_mask_metrics",), (LVIS_SET,)):
        split = split_to_measure((image,), LABEL_MAP, MetricOptions(sets=sets))
        expected = [[0, 1], [1, 0]] if sets else [[1, 0], [0, 1]]
        assert confusion_matrix(split, 0.5)[:2, :2].tolist() == expected
        curves = make_curves(split, 0.5)
        assert (curves.iou_type, curves.map50) == (("segm", 0.0) if sets else ("bbox", pytest.approx(1.0)))
        assert [c.found for c in curves.classes[:2]] == ([0, 0] if sets else [1, 1])


def test_overlaps_of_masks_are_those_of_a_slow_loop_for_any_number():
    rng = np.random.default_rng(0)
    many = rng.integers(0, 2, (300, 6, 7))
    runs, few = encode_masks(many), encode_masks(many[:4])
    np.testing.assert_array_equal(mask_areas(runs, 6, 7), many.sum(axis=(1, 2)))
    crowd = np.array([True, False, False, True])
    overlaps = mask_iou(runs, few, crowd, 6, 7)
    for d in range(0, 300, 37):
        for g in range(4):
            shared = (many[d] & many[g]).sum()
            union = many[d].sum() if crowd[g] else (many[d] | many[g]).sum()
            assert overlaps[d, g] == pytest.approx(shared / union, abs=1e-12)
    assert mask_iou(runs[:0], few, crowd, 6, 7).shape == (0, 4) and mask_areas([], 6, 7).shape == (0,)


def test_a_threshold_on_a_metric_whose_set_is_missing_names_the_set():
    masks = [*MASK_METRICS, "DetectionMasks_PerformanceByCategory/mAP/dog"]
    own = {LVIS_SET: LVIS_METRICS[:1], "coco_mask_metrics": masks}
    own |= {"coco_keypoint_metrics": ["Keypoints_Precision/mAP"]}
    own |= {name: metrics[1:2] for name, metrics in TIDE_METRICS.items()}
    own |= {name: [f"{SET_PREFIXES[name]}_Precision/mAP@0.5IOU"] for name in SET_PREFIXES}
    for name, metric in ((name, metric) for name, metrics in own.items() for metric in metrics):
        check_metric_names([metric], EvalConfig(metrics_set=[name]), "here")
        found = f"'{re.escape(metric)}'; add {name} to eval_config"
        message = f"^here: expected a metric of the evaluation, found {found}"
        refused(ConfigError, message, check_metric_names, [metric], EvalConfig(), "here")
