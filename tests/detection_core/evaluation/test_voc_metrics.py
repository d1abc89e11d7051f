import dataclasses
import json
import math

import numpy as np
import pytest

from detection_core.evaluation.metric_sets import VOC_SETS, MetricOptions
from detection_core.evaluation.voc_metrics import VocOptions, average_precision, evaluate_voc
from tests.support.cases import cases
from tests.support.coco_goldens import DATA, golden_images
from tests.support.evaluated_images import evaluated

NAMES = {0: "cat", 1: "dog", 2: "bird", 3: "fish"}


def with_truth(image, **fields):
    return dataclasses.replace(image, truth=dataclasses.replace(image.truth, **fields))


def with_flags(images, names):
    """The images with the fixture's flags of these names."""
    arrays = np.load(DATA / "evaluation_fixture.npz")
    verified = arrays["verified_image_labels"]

    def flags(i):
        own = arrays["gt_image"] == i
        found = {name: arrays[f"gt_{name}"][own] for name in names if name != "labelled"}
        if "labelled" in names:
            found["labelled"] = verified[verified[:, 0] == i, 1] - 1
        return found

    return [with_truth(image, **flags(i)) for i, image in enumerate(images)]


def of_set(name, **changes):
    return dataclasses.replace(VOC_SETS[name](MetricOptions(recall_bounds=(0.2, 0.8))), **changes)


PASCAL, WEIGHTED = "pascal_voc_detection_metrics", "weighted_pascal_voc_detection_metrics"
AT_RECALL = "precision_at_recall_detection_metrics"
OPEN_IMAGES, CHALLENGE = "oid_V2_detection_metrics", "oid_challenge_detection_metrics"


@cases(
    ("pascal_voc_0p5", of_set(PASCAL), ["difficult"]),
    ("pascal_voc_0p75", of_set(PASCAL, iou_threshold=0.75), ["difficult"]),
    ("pascal_voc_no_difficult", of_set(PASCAL), []),
    ("weighted_pascal_voc", of_set(WEIGHTED), ["difficult"]),
    ("precision_at_recall", of_set(AT_RECALL), ["difficult"]),
    # A set looks at the flags that are its own: the others change nothing.
    ("pascal_voc_0p5", of_set(PASCAL), ["difficult", "group_of", "labelled"]),
    ("open_images_v2", of_set(OPEN_IMAGES), ["difficult", "group_of", "labelled"]),
    ("open_images_v2_no_group_of", of_set(OPEN_IMAGES), ["difficult"]),
    ("open_images_challenge", of_set(CHALLENGE), ["difficult", "group_of", "labelled"]),
    # What the Object Detection API gives when it is asked for localisation: precision at full recall.
    ("open_images_challenge_corloc", of_set(CHALLENGE, recall_bounds=(1.0, 1.0)), ["group_of", "labelled"]),
)
def test_numbers_of_the_object_detection_api(*, case, options, flags):
    expected = json.loads((DATA / "evaluation_metrics.json").read_text())[case]
    images = with_flags(golden_images(crowd=False, area=False), flags)
    metrics = evaluate_voc(images, NAMES, options)
    assert metrics.keys() == expected.keys()
    for name, value in expected.items():
        expected_value = math.nan if value is None else value
        assert metrics[name] == pytest.approx(expected_value, abs=1e-6, nan_ok=True), name


def test_area_below_the_curve_as_the_object_detection_api_takes_it():
    arrays = np.load(DATA / "evaluation_fixture.npz")
    scores, labels = arrays["precision_recall/scores"], arrays["precision_recall/labels"]
    expected = arrays["precision_recall/average_precision"]
    assert average_precision(scores, labels > 0, 5) == pytest.approx(float(expected), abs=1e-6)
    assert math.isnan(average_precision(np.zeros(0), np.zeros(0, bool), 0))
    assert math.isnan(evaluate_voc([], NAMES, VocOptions())["PascalBoxes_Precision/mAP@0.5IOU"])
    assert average_precision(np.zeros(0), np.zeros(0, bool), 3) == 0.0


@cases((None, (1 + 2 / 3) / 3), (0, (1 + 1) / 2), (1, (1 + 1 + 1) / 3))
def test_what_lies_in_a_group_is_no_false_alarm_and_finds_the_group_once(*, groups, expected):
    alone, other, group = [0, 0, 0.2, 0.2], [0.3, 0, 0.5, 0.2], [0, 0.5, 1, 1]
    found = [alone, [0.1, 0.6, 0.2, 0.7], other], [0.9, 0.8, 0.7], [0, 0, 0]
    image = evaluated([alone, other, group], [0, 0, 0], *found, height=100, width=100)
    image = with_truth(image, group_of=np.array([False, False, True]))
    options = VocOptions(groups=groups)
    assert evaluate_voc([image], {0: "cat"}, options)[options.map_name] == pytest.approx(expected)


def test_false_alarms_are_second_detections_and_classes_that_were_looked_for():
    box, other, name = [0, 0, 0.5, 0.5], [0.5, 0.5, 1, 1], "PascalBoxes_PerformanceByCategory/AP@0.5IOU/cat"
    twice = evaluated([box, other], [0, 0], [box, box, other], [0.9, 0.8, 0.7], [0, 0, 0])
    empty, seen = evaluated([], [], [box], [0.9], [0]), evaluated([box], [0], [box], [0.8], [0])
    looked_for = with_truth(empty, labelled=np.array([0], np.int32))
    for images, only_labelled, expected in (
        ([twice], False, 0.5 + 0.5 * 2 / 3),  # precision 1 up to recall 1/2, then 2/3
        ([empty, seen], False, 0.5),
        ([empty, seen], True, 1.0),
        ([looked_for, seen], True, 0.5),
    ):
        found = evaluate_voc(images, NAMES, VocOptions(only_labelled=only_labelled))
        assert found[name] == pytest.approx(expected)
