import numpy as np
import pytest

from detection_core.evaluation.evaluated_split import EvaluatedSplit
from detection_core.evaluation.mistakes import largest_misses, worst_false_positives
from tests.support.cases import cases
from tests.support.evaluated_images import evaluated, random_images

NAMES = {0: "cat", 1: "dog"}
LEFT, RIGHT = [0.0, 0.0, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0]


def of_one(objects, found, **fields):
    split = EvaluatedSplit(images=(evaluated(*objects, *found, **fields),), class_names=NAMES)
    return worst_false_positives(split, 10), largest_misses(split, 0.5, 10)


@cases(
    (LEFT, 1, "dog 0.80: it is cat (overlap 1.00)"),
    (LEFT, 0, "cat 0.80: a second detection of the same object"),
    ([0, 0, 0.25, 0.4], 0, "cat 0.80: badly placed (overlap 0.40)"),
    (RIGHT, 0, "cat 0.80: nothing is there"),
)
def test_why_a_detection_is_wrong(*, box, label, caption):
    (wrong,), misses = of_one(([LEFT], [0]), ([LEFT, box], [0.9, 0.8], [0, label]))
    assert (wrong.caption, wrong.row, wrong.weight) == (caption, 1, pytest.approx(0.8))
    assert misses == []


def test_why_an_object_was_missed():
    # Each has 100 x 50 px.
    _, misses = of_one(([LEFT, RIGHT], [0, 1]), ([LEFT, LEFT], [0.7, 0.3], [1, 0]))
    told = ["cat, 100 x 50 px: the best there was dog 0.70", "dog, 100 x 50 px: nothing was found there"]
    assert [m.caption for m in misses] == told
    assert of_one(([LEFT], [0]), ([], [], []), crowd=[True])[1] == []


def test_the_worst_come_first_and_few_of_an_image():
    images = random_images(3, classes=2)
    images = [i for i in images if (i.truth.classes < 2).all() and (i.detections.classes < 2).all()]
    split = EvaluatedSplit(images=tuple(images), class_names=NAMES)
    wrong = worst_false_positives(split, 12)
    weights = [m.weight for m in wrong]
    assert weights == sorted(weights, reverse=True) and len(wrong) == 12
    assert max(np.bincount([m.image for m in wrong])) <= 3
    pairs = zip(images, split.matches, strict=True)
    assert weights[0] == max(np.concatenate([i.detections.scores[m.found_by == -1] for i, m in pairs]))
