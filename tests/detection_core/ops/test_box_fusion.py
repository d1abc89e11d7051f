"""Weighted boxes fusion against google/automl's numbers, and what holds of it whatever the boxes."""

import pathlib

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.ops.box_fusion import IOU_THRESHOLD, fuse_boxes
from tests.support.cases import cases

GOLDEN = np.load(pathlib.Path(__file__).parent / "data" / "weighted_boxes_fusion.npz")


def _fused(rows: np.ndarray, models: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fuse rows of (id, xmin, ymin, xmax, ymax, score, class)."""
    return fuse_boxes(rows[:, 1:5], rows[:, 5], rows[:, 6].astype(np.int32), models=models)


# How many models looked is 2 unless the case's name ends with it.
@cases(
    *((f"four_boxes_models{models}", models) for models in (1, 2, 3)),
    *((name, 2) for name in ("class_out_of_range", "twenty_random", "more_boxes_than_models")),
    *((name, 2) for name in ("below_threshold", "no_known_class")),
)
def test_fused_boxes_are_those_of_the_reference_whatever_the_order(*, name: str, models: int) -> None:
    rows = GOLDEN[f"{name}/input/detections"]
    rows = rows[rows[:, 6] < 5]  # the reference leaves its last class out
    expected = GOLDEN[f"{name}/output/fused"].reshape(-1, 7)
    for ordered in (rows, rows[::-1]) if name == "twenty_random" else (rows,):
        boxes, scores, classes = _fused(ordered, models)
        np.testing.assert_allclose(boxes, expected[:, 1:5], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(scores, expected[:, 5], rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(classes, expected[:, 6])


@st.composite
def detections(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    count = draw(st.integers(0, 12))
    unit = st.floats(0, 1, width=32)
    corners = np.array(draw(st.lists(st.tuples(unit, unit, unit, unit), min_size=count, max_size=count)))
    corners = corners.reshape(-1, 2, 2)
    boxes = np.concatenate([corners.min(1), corners.max(1)], -1).astype(np.float32)
    scores = np.array(draw(st.lists(unit, min_size=count, max_size=count)), np.float32)
    classes = np.array(draw(st.lists(st.integers(0, 2), min_size=count, max_size=count)), np.int32)
    return boxes, scores, classes


@given(detections(), st.integers(1, 4))
@settings(deadline=None, max_examples=60)
def test_boxes_stay_between_what_went_in_and_no_score_grows(found, models: int) -> None:
    boxes, scores, classes = found
    fused, fused_scores, fused_classes = fuse_boxes(boxes, scores, classes, models=models)
    assert len(fused) == len(fused_scores) == len(fused_classes) <= len(boxes)
    assert set(fused_classes) == set(classes)
    assert (np.diff(fused_scores) <= 0).all() and np.isfinite(fused).all()
    for box, score, label in zip(fused, fused_scores, fused_classes, strict=True):
        own = classes == label
        assert score <= scores[own].max() + 1e-6
        assert (box >= boxes[own].min(0) - 1e-6).all() and (box <= boxes[own].max(0) + 1e-6).all()


def test_a_box_exactly_at_the_threshold_is_joined() -> None:
    # 11 x 10 and 20 x 10 pixels, the first inside of the second.
    boxes = np.array([[0, 0, 10, 20], [0, 0, 10, 11]], np.float32)
    fused, *_ = fuse_boxes(boxes, np.array([0.5, 0.5], np.float32), np.zeros(2, np.int32), models=1)
    assert IOU_THRESHOLD == 0.55 and len(fused) == 1
