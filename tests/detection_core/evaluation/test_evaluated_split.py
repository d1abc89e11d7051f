import dataclasses

import numpy as np

from detection_core.evaluation.coco_metrics import evaluate_coco
from detection_core.evaluation.evaluated_split import EvaluatedSplit
from detection_core.evaluation.matching import best_score_threshold, match_image
from tests.support.evaluated_images import random_images

NAMES = dict(enumerate("abcde"))


def test_what_is_derived_is_computed_once_and_hides_no_detection_where_nothing_is_found():
    images = tuple(random_images(2))
    split = EvaluatedSplit(images=images, class_names=NAMES)
    assert split.coco.metrics() == evaluate_coco(images, NAMES).metrics()
    matches = [match_image(image) for image in images]
    for ours, expected in zip(split.matches, matches, strict=True):
        np.testing.assert_array_equal(ours.found_by, expected.found_by)
    assert split.best_score == best_score_threshold(images, matches)
    assert 0 <= split.best_score - split.score_threshold < 1e-4
    assert split.coco is split.coco and split.matches is split.matches
    elsewhere = tuple(
        dataclasses.replace(i, detections=dataclasses.replace(i.detections, classes=i.detections.classes + 9))
        for i in images
    )
    for found in (elsewhere, ()):
        split = EvaluatedSplit(images=found, class_names=NAMES)
        assert split.best_score == 0.5 and split.score_threshold == 0.0
