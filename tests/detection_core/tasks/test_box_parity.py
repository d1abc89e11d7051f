"""Which of the SavedModel's detections a file has to have."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.evaluation.results import EvaluatedImage, iou_px
from detection_core.exporters.tflite_formats import Tolerance
from detection_core.structures import ImageDetections
from detection_core.tasks.box_parity import LEAST_SCORE, box_clauses, compare_boxes
from tests.support.evaluated_images import make_truth

TOLERANCE = Tolerance(heads_db=20.0, matched_boxes=0.9)
SEEDS = st.integers(0, 2**32 - 1)


def evaluated(boxes: np.ndarray, scores: np.ndarray, classes: np.ndarray) -> EvaluatedImage:
    detections = ImageDetections(
        source_id="x",
        boxes=np.asarray(boxes, np.float32).reshape(-1, 4),
        scores=np.asarray(scores, np.float32),
        classes=np.asarray(classes, np.int32),
    )
    return EvaluatedImage(truth=make_truth([], [], height=10, width=10, source_id="x"), detections=detections)


def image(*found: tuple[float, float, int]) -> EvaluatedImage:
    """One row of boxes of a tenth of the image, each (left side, score, class)."""
    boxes = np.array([[0.0, left, 0.1, left + 0.1] for left, _, _ in found])
    return evaluated(boxes, np.array([s for _, s, _ in found]), np.array([label for _, _, label in found]))


def test_boxes_are_found_by_class_and_overlap_each_once():
    reference = [image((0.0, 0.9, 0), (0.3, 0.8, 1), (0.6, 0.7, 0), (0.8, 0.2, 0))]
    found = [image((0.01, 0.7, 0), (0.3, 0.8, 0), (0.62, 0.7, 0), (0.0, 0.6, 1))]
    parity = compare_boxes(reference, found, TOLERANCE)
    # The second has another class there; the fourth does not count.
    assert parity.detections == 3 and parity.matched == pytest.approx(2 / 3, abs=1e-6)
    assert parity.mean_iou == pytest.approx((0.09 / 0.11 + 0.08 / 0.12) / 2, abs=1e-4)
    assert parity.mean_score_difference == pytest.approx(0.1, abs=1e-6)
    assert (parity.undecided, parity.score_noise) == (0, pytest.approx(0.19, abs=1e-6))


def test_nothing_to_find_is_all_found_and_a_share_of_few_detections_refuses_nothing():
    parity = compare_boxes([image((0.0, 0.1, 0))], [image()], TOLERANCE)
    assert (parity.detections, parity.matched, parity.mean_iou, parity.score_noise) == (0, 1.0, None, None)
    assert list(box_clauses(parity)) == []
    few, many = (
        list(box_clauses(compare_boxes([image((0.0, 0.9, 0))] * images, [image()] * images, TOLERANCE)))
        for images in (19, 20)
    )
    assert few == []
    assert many[0].startswith("0.0% of the SavedModel's 20 detections from a score of 0.3")


def test_only_what_is_as_good_and_real_suppresses():
    # 0.04 beside it is an overlap of 0.43: not the same, and enough to suppress.
    others = [(0.2 + 0.12 * n, 0.9, 2) for n in range(6)]
    alike = image(*((left, 0.89, 2) for left, _, _ in others))  # so that the noise is known: 0.01
    reference = [image((0.0, 0.8, 0), (0.04, 0.79, 0)), *[image(*others)] * 4]
    for score, label, undecided in (
        (0.79, 0, 1),  # of the same class and as good: it may have suppressed it
        (0.6, 0, 0),  # far worse: something else has lost it
        (0.79, 1, 0),  # nothing of this class is here
    ):
        parity = compare_boxes(reference, [image((0.0, score, label)), *[alike] * 4], TOLERANCE)
        lost = {0: 1, 1: 2}[label] - undecided
        assert (parity.undecided, parity.detections) == (undecided, 26 - undecided)
        assert parity.matched == pytest.approx(1 - lost / (26 - undecided), abs=1e-6)


def test_the_last_of_a_full_list_are_cut_off_by_chance():
    # A trace of a score finds nothing.
    parity = compare_boxes([image((0.0, 0.9, 0))], [image((0.0, 0.4, 0))], TOLERANCE)
    assert (parity.detections, parity.matched) == (1, 0.0)
    reference = [image((0.0, 0.9, 0), (0.3, 0.41, 0), (0.6, 0.4, 0))]
    found = [image((0.0, 0.88, 0), (0.8, 0.42, 1))]
    full, open_ = (compare_boxes(reference, found, TOLERANCE, max_detections=most) for most in (2, 3))
    assert (full.undecided, full.matched) == (2, 1.0)
    assert (open_.undecided, open_.matched) == (0, pytest.approx(1 / 3, abs=1e-6))


@dataclasses.dataclass(frozen=True)
class Scene:
    """What a network gives before suppression: boxes [A, 4] and scores [A, C]."""

    boxes: np.ndarray
    scores: np.ndarray

    def noisy(self, rng: np.random.Generator, noise: float) -> Scene:
        scores = np.clip(self.scores + rng.uniform(-noise, noise, self.scores.shape), 0, 1)
        return Scene(self.boxes + rng.uniform(-0.002, 0.002, self.boxes.shape), scores)

    def by_class(self, overlap: float, most: int) -> EvaluatedImage:
        """Suppress class by class, as the SavedModel does."""
        rows = []
        for label in range(self.scores.shape[1]):
            rows += [(a, label) for a in kept(self.boxes, self.scores[:, label], overlap)[:most]]
        rows = sorted(rows, key=lambda row: -self.scores[row])[:most]
        anchors, labels = np.array(rows).T
        return evaluated(self.boxes[anchors], self.scores[anchors, labels], labels)

    def across_classes(self, overlap: float, most: int) -> EvaluatedImage:
        """Let boxes of all classes suppress each other, as files do."""
        best, labels = self.scores.max(axis=1), self.scores.argmax(axis=1)
        anchors = kept(self.boxes, best, overlap)[:most]
        return evaluated(self.boxes[anchors], best[anchors], labels[anchors])


def kept(boxes: np.ndarray, scores: np.ndarray, overlap: float) -> list[int]:
    near = iou_px(boxes, boxes, np.zeros(len(boxes), bool)) > overlap
    left, found = np.ones(len(boxes), bool), []
    for anchor in np.argsort(-scores, kind="stable"):
        if left[anchor]:
            found.append(int(anchor))
            left &= ~near[anchor]
    return found


def crowd(rng: np.random.Generator, spread: float, anchors: int = 90) -> Scene:
    """Boxes all over the image, overlapping, with scores that differ by no more than the spread."""
    corners = rng.uniform(0, 0.8, (anchors, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(0.15, 0.25, (anchors, 2))], axis=1)
    return Scene(boxes, np.clip(0.5 + rng.uniform(-spread, spread, (anchors, 3)), 0, 1))


def objects(rng: np.random.Generator) -> Scene:
    """A grid of objects apart from each other, each with some boxes of which one class is sure."""
    cells = np.stack(np.meshgrid(*[np.arange(5) / 5] * 2), -1).reshape(-1, 2)
    corners = np.repeat(cells, 3, axis=0) + rng.uniform(0.02, 0.03, (75, 2))
    scores = rng.uniform(0, 0.1, (75, 3))
    scores[np.arange(75), np.repeat(rng.integers(0, 3, 25), 3)] = rng.uniform(0.6, 0.9, 75)
    return Scene(np.concatenate([corners, corners + 0.14], axis=1), scores)


FORMS = {"by class": Scene.by_class, "across classes": Scene.across_classes}


@settings(deadline=None, max_examples=20)
@given(
    seed=SEEDS,
    spread=st.sampled_from([0.0, 0.001, 0.05, 0.15]),
    noise=st.sampled_from([0.0005, 0.01, 0.05]),
    form=st.sampled_from(list(FORMS)),
    overlap=st.sampled_from([0.3, 0.5, 0.6]),
    most=st.sampled_from([10, 100]),
)
def test_noise_alone_refuses_no_file(seed, spread, noise, form, overlap, most):
    rng = np.random.default_rng(seed)
    scenes = [crowd(rng, spread) if n % 2 else objects(rng) for n in range(4)]
    reference = [scene.by_class(max(overlap, 0.5), most) for scene in scenes]
    found = [FORMS[form](scene.noisy(rng, noise), overlap, most) for scene in scenes]
    parity = compare_boxes(reference, found, TOLERANCE, max_detections=most)
    assert list(box_clauses(parity)) == [], parity


# Of boxes, scores and classes.
FAULTS = {
    "without a class": lambda *given: [values[given[2] != 1] for values in given],
    "shifted": lambda boxes, scores, classes: (boxes + 0.04, scores, classes),
    "swapped": lambda boxes, scores, classes: (boxes, scores, 2 - classes),
    "first alone": lambda *given: [values[:1] for values in given],
}


@settings(deadline=None, max_examples=15)
@given(seed=SEEDS, form=st.sampled_from(list(FORMS)))
def test_of_objects_that_lie_apart_all_count_and_faults_are_not_taken_for_noise(seed, form):
    rng = np.random.default_rng(seed)
    scenes = [objects(rng) for _ in range(4)]
    reference = [scene.by_class(0.5, 100) for scene in scenes]
    noisy = [scene.noisy(rng, 0.02) for scene in scenes]
    parity = compare_boxes(reference, [FORMS[form](scene, 0.5, 100) for scene in noisy], TOLERANCE)
    assert parity.undecided == 0 and parity.detections >= 100 and parity.matched == 1.0
    for name, fault in FAULTS.items():
        found = [scene.by_class(0.5, 100).detections for scene in noisy]
        spoilt = [evaluated(*fault(each.boxes, each.scores, each.classes)) for each in found]
        (clause,) = box_clauses(compare_boxes(reference, spoilt, TOLERANCE))
        assert f"from a score of {LEAST_SCORE:g}" in clause, name
