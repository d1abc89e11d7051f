import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.ops import iou as iou_ops
from tests.support.batches import random_boxes
from tests.support.cases import cases
from tests.support.golden_cases import load_cases

CASES = load_cases(__file__, "region_similarity")
TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}
SIDES = (0.0, 0.5)
OPS = {
    "op_intersection": iou_ops.intersection,
    "op_matched_intersection": iou_ops.matched_intersection,
    "op_matched_iou": iou_ops.matched_iou,
    "op_giou": iou_ops.matched_giou,
}


def _slow(first, second):
    """Intersection, areas of both and area of the enclosing box."""
    height = max(0.0, min(first[2], second[2]) - max(first[0], second[0]))
    width = max(0.0, min(first[3], second[3]) - max(first[1], second[1]))
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (first, second)]
    enclosing = (max(first[2], second[2]) - min(first[0], second[0])) * (
        max(first[3], second[3]) - min(first[1], second[1])
    )
    return height * width, *areas, enclosing


@cases(*sorted(OPS))
def test_golden(*, name):
    case = CASES[name]
    found = OPS[name](case.inputs["boxes1"], case.inputs["boxes2"])
    np.testing.assert_allclose(found, case.outputs["value"], **TOLERANCE)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32 - 1))
def test_pairs_and_giou_equal_a_loop(seed):
    rng = np.random.default_rng(seed)
    rows, columns = (random_boxes(rng, *shape, sides=SIDES) for shape in ((2, 3), (4,)))
    found = [op(rows, columns[np.newaxis]).numpy() for op in (iou_ops.intersection, iou_ops.iou, iou_ops.ioa)]
    for image, row, column in np.ndindex(2, 3, 4):
        shared, one, other, _ = _slow(rows[image, row], columns[column])
        expected = (shared, shared / (one + other - shared or 1), shared / (other or 1))
        np.testing.assert_allclose([f[image, row, column] for f in found], expected, rtol=1e-3, atol=1e-5)
    first, second = (random_boxes(rng, 5, sides=SIDES) for _ in range(2))
    first = first + np.float32([0, 0, 0.01, 0.01])
    giou = iou_ops.matched_giou(first, second).numpy()
    for place in range(5):
        shared, one, other, enclosing = _slow(first[place], second[place])
        union = one + other - shared
        np.testing.assert_allclose(giou[place], shared / union - (enclosing - union) / enclosing, atol=1e-4)
    assert np.all(giou <= iou_ops.matched_iou(first, second).numpy() + 1e-6)
    assert np.all(giou >= -1.0 - 1e-6)


def test_boxes_without_area_share_nothing_and_squared_distance_equals_a_loop():
    point = np.float32([[0.5, 0.5, 0.5, 0.5]])
    for op in (iou_ops.iou, iou_ops.ioa, iou_ops.matched_giou):
        assert op(point, point).numpy().item() == 0.0
    rng = np.random.default_rng(0)
    rows, columns = random_boxes(rng, 3), random_boxes(rng, 4)
    expected = [[np.sum((row - column) ** 2) for column in columns] for row in rows]
    found = -iou_ops.negative_squared_distance(rows, columns)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
