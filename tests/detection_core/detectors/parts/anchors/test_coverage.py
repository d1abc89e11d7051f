import numpy as np

from detection_core.detectors.parts.anchors.coverage import (
    AnchorMap,
    aspect_clusters,
    best_overlaps,
    matched_fraction,
)
from tests.support.batches import slow_iou
from tests.support.cases import cases
from tests.support.laid_anchors import lay_anchors


def test_the_best_overlap_is_that_of_all_anchors_laid_out():
    maps = [
        AnchorMap(shape=(6, 9), stride=(8, 8), offset=(4, 4), sizes=[(16, 16), (10, 30)]),
        AnchorMap(shape=(3, 5), stride=(16, 16), offset=(0, 8), sizes=[(40, 25)]),
        AnchorMap(shape=(1, 1), stride=(48, 72), offset=(24, 36), sizes=[(48, 72)]),
    ]
    rng = np.random.default_rng(3)
    corners = rng.uniform(-5, (45, 70), (120, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(0, 60, (120, 2))], axis=1)
    boxes[:3, 2:] = boxes[:3, :2]  # without area
    anchors = lay_anchors(maps)
    assert len(anchors) == sum(m.count for m in maps)
    expected = [max(slow_iou(box, anchor) for anchor in anchors) for box in boxes]
    np.testing.assert_allclose(best_overlaps(boxes, maps), expected, atol=1e-9)
    assert best_overlaps(np.zeros((0, 4)), maps).shape == (0,)


@cases(([], 0.0), ([0.5, 0.49, 1.0, 0.0], 0.5))
def test_a_box_is_matched_from_half_on(*, overlaps, fraction):
    assert matched_fraction(np.array(overlaps)) == fraction


def _boxes(ratios):
    sides = [(10 / r**0.5, 10 * r**0.5) for r in ratios]
    return np.array([(5, 5, 5 + h, 5 + w) for h, w in sides])


def test_clusters_are_the_ratios_that_boxes_have():
    rng = np.random.default_rng(0)
    tall, square, wide = (r * np.exp(rng.normal(0, 0.05, 50)) for r in (0.4, 1.0, 2.5))
    boxes = _boxes([*tall, *square, *wide])
    np.testing.assert_allclose(aspect_clusters(boxes, 3), (0.4, 1.0, 2.5), rtol=0.05)
    assert aspect_clusters(_boxes([2.0] * 9), 3) == (2.0,)
    assert aspect_clusters(np.array([[1, 1, 1, 5]]), 2) == ()
    # One outlier does not pull its cluster away.
    assert aspect_clusters(_boxes([1.0] * 60 + [50.0]), 1) == (1.0,)
