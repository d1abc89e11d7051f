import numpy as np

from detection_core.evaluation.results import iou_px
from detection_core.validation.duplicates import Pair
from detection_core.validation.same_boxes import AnnotationChecker, check_copies, same_boxes
from tests.detection_core.validation.samples import findings_of, labelled
from tests.support.made_examples import CLASSES, Made

BOX, MOVED, OTHER = (0.1, 0.1, 0.5, 0.5), (0.1, 0.1, 0.5, 0.503), (0.6, 0.6, 0.9, 0.9)


def _checker(*images):
    checker = AnnotationChecker()
    for number, made in enumerate(images):
        checker.add(labelled(number, made))
    return checker


def _found(*images):
    findings = findings_of(_checker(*images).report, "train", CLASSES)
    return {finding.check: finding for finding in findings.findings()}


def test_same_boxes_overlap_and_have_an_area():
    random = np.random.default_rng(0)
    corners, sides = random.uniform(0, 0.5, (30, 2)), random.uniform(0.1, 0.5, (30, 2))
    boxes = np.concatenate([corners, corners + sides], axis=1)
    boxes[20:] = boxes[:10] + random.uniform(0, 0.01, (10, 4))
    expected = (iou_px(boxes, boxes, np.zeros(30, bool)) >= 0.9) & ~np.eye(30, dtype=bool)
    found = same_boxes(boxes, overlap=0.9)
    assert (found == expected).all() and found.any()
    flat = (0.5, 0.5, 0.5, 0.5)
    assert same_boxes(np.asarray([flat, flat, BOX])).sum() == 0


def test_one_box_twice_is_a_repetition_of_two_classes_a_contradiction_and_of_a_crowd_fine():
    found = _found(Made(), Made(boxes=(BOX, OTHER, MOVED), classes=("cat", "cat", "dog")))
    assert list(found) == ["contradictions"]
    finding = found["contradictions"]
    assert (finding.measured, [e.record for e in finding.examples]) == (0.5, [1])
    assert finding.examples[0].note == "cat and dog"
    found = _found(Made(boxes=(BOX, MOVED, MOVED, OTHER), classes=("cat",) * 4))
    assert list(found) == ["repeated_boxes"] and found["repeated_boxes"].examples[0].note == "2 boxes again"
    of_a_crowd = Made(boxes=(BOX, BOX), classes=("cat", "dog"), crowd=(0, 1))
    others = Made(boxes=(BOX, OTHER), classes=("cat", "dog")), Made(boxes=(BOX,), classes=("cat",))
    for made in (*others, of_a_crowd, Made(boxes=(), classes=())):
        assert _found(made) == {}, made


def test_copies_that_are_annotated_differently_are_found():
    two = Made(boxes=(BOX, OTHER), classes=("cat", "dog"))
    swapped = Made(boxes=(OTHER, BOX), classes=("dog", "cat"))
    checkers = {"train": _checker(two, two), "eval": _checker(swapped, Made(boxes=(BOX,)))}
    pairs = [Pair(split="eval", record=record, other_split="train", other_record=record) for record in (0, 1)]
    [finding] = findings_of(check_copies, pairs, checkers).findings()
    assert (finding.measured, finding.examples[0].record) == (0.5, 1)
    assert findings_of(check_copies, [], checkers).findings() == []
