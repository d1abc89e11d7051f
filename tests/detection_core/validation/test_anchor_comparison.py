import numpy as np
import pytest

from detection_core.artifacts.anchor_matches import ANCHOR_MATCHES
from detection_core.data.resize import FixedShapeResizer
from detection_core.datasets.box_counter import SIDES
from detection_core.report.figures import anchor_charts, anchor_maps
from detection_core.validation.anchor_comparison import match_anchors
from detection_core.validation.network_view import NetworkView, SampledBoxes

ANCHORS = np.array([[0.0, 0.0, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0], [0.0, 0.0, 1.0, 0.25]], np.float32)


def sampled(*boxes):
    found = np.asarray(boxes, np.float32).reshape(-1, 4)
    sizes = np.tile(np.int32([[100, 200]]), (len(found), 1))
    return SampledBoxes(boxes=found, sizes=sizes, records=np.arange(len(found)), total=len(found))


def view(anchors=ANCHORS):
    return NetworkView(resizer=FixedShapeResizer(height=64, width=64), anchors=anchors)


def test_anchors_are_matched_and_drawn_where_boxes_of_their_size_are(tmp_path):
    boxes = sampled((0, 0, 0.5, 0.5), (0.5, 0.5, 1.0, 0.9), (0.9, 0.9, 1.0, 1.0))
    found = match_anchors({"train": boxes, "eval": sampled()}, view())
    assert list(found.splits) == ["train"]
    match = found.splits["train"]
    assert (match.boxes, match.matched) == (3, 2)
    # Overlaps of 1, 0.8 and 0.04.
    assert match.overlaps.counts == [1, 0, 0, 0, 0, 0, 0, 1, 0, 1]
    small = int(np.searchsorted(SIDES, 0.1))
    assert np.array(match.unmatched.counts).sum() == 1 and match.unmatched.counts[small][small] == 1
    assert np.array(match.sizes.counts).sum() == 3
    assert (found.anchors, found.input_size) == (3, (64, 64))
    assert found.shapes == [(0.5, 0.5), (1.0, 0.25)]
    ANCHOR_MATCHES.write(str(tmp_path), found)
    assert ANCHOR_MATCHES.read(str(tmp_path)) == found
    assert match_anchors({"train": sampled((0, 0, 1, 1))}, view(anchors=None)) is None
    found = match_anchors({"train": sampled((0, 0, 0.5, 0.5))}, view())
    boxes, unmatched = anchor_maps(found)
    size = len(SIDES)
    # A box of half the input is in the bin whose upper edge is a half, and the dot is on that edge.
    assert [(column, row) for column, row, _, _ in boxes.cells] == [(size - 3, 2)]
    assert boxes.points == [(pytest.approx(size - 4), 0.0), (pytest.approx(size - 2), 2.0)]
    assert unmatched.cells == [] and unmatched.points == []
    (chart,) = anchor_charts(found)
    assert [bar.text for bar in chart.bars] == ["train, \N{LESS-THAN OR EQUAL TO}1: 1 boxes, 100.0 %"]
