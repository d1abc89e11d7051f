from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

from detection_core.evaluation.results import EvaluatedImage
from detection_core.evaluation.voc_metrics import VocOptions, average_precision, evaluate_voc
from tests.detection_core.evaluation.images import make_detections, make_truth
from tests.detection_core.evaluation.test_coco_metrics import DATA, golden_images

NAMES = {0: "cat", 1: "dog", 2: "bird", 3: "fish"}


def with_difficult(images):
    arrays = np.load(DATA / "evaluation_fixture.npz")
    return [
        dataclasses.replace(
            image,
            truth=dataclasses.replace(image.truth, difficult=arrays["gt_difficult"][arrays["gt_image"] == i]),
        )
        for i, image in enumerate(images)
    ]


@pytest.mark.parametrize(
    ("case", "options", "difficult"),
    [
        ("pascal_voc_0p5", VocOptions(), True),
        ("pascal_voc_0p75", VocOptions(iou_threshold=0.75), True),
        ("pascal_voc_no_difficult", VocOptions(), False),
        ("weighted_pascal_voc", VocOptions(weighted=True), True),
    ],
)
def test_numbers_of_the_object_detection_api(case, options, difficult):
    expected = json.loads((DATA / "evaluation_metrics.json").read_text())[case]
    images = golden_images(crowd=False, area=False)
    metrics = evaluate_voc(with_difficult(images) if difficult else images, NAMES, options)
    assert metrics.keys() == expected.keys()
    for name, value in expected.items():
        assert metrics[name] == pytest.approx(math.nan if value is None else value, abs=1e-6, nan_ok=True), (
            name
        )


def test_second_detection_of_an_object_is_a_false_positive():
    box = [0, 0, 0.5, 0.5]
    image = EvaluatedImage(
        truth=make_truth([box, [0.5, 0.5, 1, 1]], [0, 0]),
        detections=make_detections([box, box, [0.5, 0.5, 1, 1]], [0.9, 0.8, 0.7], [0, 0, 0]),
    )
    # Precision 1 up to recall 1/2, then 2/3.
    assert evaluate_voc([image], {0: "cat"}, VocOptions())["PascalBoxes_Precision/mAP@0.5IOU"] == (
        pytest.approx(0.5 + 0.5 * 2 / 3)
    )


def test_nothing_to_find_is_not_a_number():
    assert math.isnan(average_precision(np.zeros(0), np.zeros(0, bool), 0))
    assert math.isnan(evaluate_voc([], NAMES, VocOptions())["PascalBoxes_Precision/mAP@0.5IOU"])
    assert average_precision(np.zeros(0), np.zeros(0, bool), 3) == 0.0
