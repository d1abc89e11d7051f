"""ObjectLab's scores against a slow calculation from the paper's definitions, and their ranking."""

import math

import numpy as np
import pytest

from detection_core.evaluation.label_scores import (
    NONE,
    LabelErrorOptions,
    rank,
    score_labels,
    soft_minimum,
)
from detection_core.evaluation.results import EvaluatedImage
from tests.support.batches import slow_iou
from tests.support.evaluated_images import make_detections, make_truth, random_images

OPTIONS = LabelErrorOptions(low_score=0.3, high_score=0.6)
SQUARE, SHIFTED, FAR = (0.2, 0.2, 0.6, 0.4), (0.3, 0.2, 0.7, 0.4), (0.7, 0.8, 0.9, 0.9)


def slow_scores(image, least):
    """Return kind to the scores of an image, one pair of boxes at a time."""
    truth, found = image.truth, image.detections
    size = np.array([truth.height, truth.width] * 2)

    def similarity(label, row):
        box, other = truth.boxes[label] * size, found.boxes[row] * size
        away = math.dist((box[:2] + box[2:]) / 2, (other[:2] + other[2:]) / 2)
        return 0.9 * slow_iou(box, other) + 0.1 * math.exp(-0.1 * away), slow_iou(box, other)

    rows, labels = range(len(found.scores)), range(len(truth.classes))
    scores = {"overlooked": [], "badly_located": [], "swapped": []}
    for row in rows:
        if found.scores[row] >= 0.6:
            own = [similarity(g, row)[0] for g in labels if truth.classes[g] == found.classes[row]]
            scores["overlooked"].append(max(own, default=least * (1 - found.scores[row])))
    for g in labels:
        near = {True: [], False: []}
        for row in rows:
            same = bool(truth.classes[g] == found.classes[row])
            if found.scores[row] > 0.3 if same else found.scores[row] >= 0.6:
                value, overlap = similarity(g, row)
                if overlap > 0 or not same:
                    near[same].append(value)
        scores["badly_located"].append(max(near[True], default=1.0))
        scores["swapped"].append(max(least, 1 - max(near[False])) if near[False] else 1.0)
    return scores


def test_scores_are_those_of_the_paper():
    images = [image for image in random_images(1, count=12) if not image.truth.is_crowd.any()]
    found, qualities = score_labels(images, OPTIONS)
    least = min(box.score for box in score_labels(images, LabelErrorOptions(low_score=-1, high_score=2))[0])
    for place, image in enumerate(images):
        expected = slow_scores(image, 0.0)
        pooled = 1.0
        for kind, values in expected.items():
            own = [box.score for box in found if box.image == place and box.kind == kind]
            np.testing.assert_allclose(own, values, atol=1e-5)
            pooled *= soft_minimum(np.array(own), 0.1)
        assert qualities[place] == pytest.approx(pooled ** (1 / 3))
    assert least >= 0


def image(label, label_class, detections):
    boxes, scores, classes = zip(*detections, strict=True)
    return EvaluatedImage(
        truth=make_truth([label], [label_class]), detections=make_detections(boxes, scores, classes)
    )


def test_each_kind_is_found_and_what_shows_nothing_is_not():
    images = [
        image(SQUARE, 0, [(SQUARE, 0.9, 0), (FAR, 0.8, 1)]),
        image(SQUARE, 0, [(SHIFTED, 0.5, 0)]),
        image(SQUARE, 0, [(SQUARE, 0.7, 1)]),
        image(SQUARE, 0, [(FAR, 0.5, 0)]),
        image(SQUARE, 0, [(SQUARE, 0.5, 1), (SQUARE, 0.9, 0)]),
    ]
    boxes, qualities = score_labels(images, OPTIONS)
    found = rank(boxes, OPTIONS, 9, 0.7)
    # A detection of another class at a label is an overlooked object, too.
    assert [box.image for box in found["overlooked"]] == [0, 2]
    assert [(box.image, box.label, box.detection) for box in found["badly_located"]] == [(1, 0, 0)]
    assert [(box.image, box.detected) for box in found["swapped"]] == [(2, pytest.approx(0.7))]
    assert [len(some) for some in rank(boxes, OPTIONS, 1, 0.7).values()] == [1, 1, 1]
    assert qualities[4] == pytest.approx(1.0) and qualities[:3].max() < 0.9
    # Without a label of its class, a detection's score falls with its confidence.
    by_image = {box.image: box.score for box in found["overlooked"]}
    assert by_image[0] / by_image[2] == pytest.approx(0.2 / 0.3)
    unseen = [box for box in boxes if box.image == 3 and box.kind == "badly_located"]
    # An object that is not detected says nothing about its label.
    assert unseen[0].score == 1 and unseen[0].detection == NONE and qualities[3] == 1


def test_crowds_and_images_without_boxes_have_no_suspects():
    crowd = EvaluatedImage(
        truth=make_truth([(0, 0, 1, 1)], [0], crowd=[1]), detections=make_detections([SQUARE], [0.9], [0])
    )
    empty = EvaluatedImage(truth=make_truth([], []), detections=make_detections([], [], []))
    boxes, qualities = score_labels([crowd, empty], OPTIONS)
    assert [(box.kind, box.score > 0.9) for box in boxes] == [("overlooked", True)]
    assert qualities[1] == 1.0
    assert soft_minimum(np.array([0.2, 1.0]), 0.01) == pytest.approx(0.2)
    assert soft_minimum(np.array([0.2, 1.0]), 1e6) == pytest.approx(0.6)


def test_thresholds_follow_the_detections_unless_given():
    images = [image(SQUARE, 0, [(SQUARE, 0.4, 0), (FAR, 0.1, 0)])]
    made = LabelErrorOptions().with_thresholds(images)
    assert (made.low_score, made.high_score) == (pytest.approx(0.2), pytest.approx(0.4))
    given = LabelErrorOptions(low_score=0.5, high_score=0.95)
    assert given.with_thresholds(images) == given
