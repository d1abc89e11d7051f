"""What anchors cover, and generators beyond the goldens in tests/detection_core/builders."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from detection_core.builders.detector_parts import build_anchor_generator
from detection_core.errors import ModelError
from detection_core.parts.anchors import choice, generators
from detection_core.parts.anchors.choice import AnchorMap, aspect_clusters, best_overlaps, matched_fraction
from detection_core.protos.anchor_generator_pb2 import AnchorGenerator
from tests.support.batches import lay_anchors, slow_iou
from tests.support.cases import cases


@cases(*itertools.product([(1, 1), (2, 3), (5, 1)], [[(1.0, 1.0)], [(2.0, 1.0), (0.5, 4.0), (3.0, 3.0)]]))
def test_anchors_are_laid_by_row_column_and_size(*, shape, sizes):
    laid = {"stride": (16.0, 8.0), "offset": (7.5, 0.0)}
    expected = lay_anchors([AnchorMap(shape=shape, sizes=sizes, **laid)])
    np.testing.assert_allclose(generators.tile(shape, sizes, **laid), expected, atol=1e-5)
    assert generators.tile((0, 3), sizes, **laid).shape == (0, 4)


def test_sizes_follow_scale_and_ratio_and_another_number_of_maps_is_refused():
    for ratio in (0.5, 1.0, 2.0, 3.0):
        height, width = generators.size_of(0.3, ratio)
        assert (height * width, width / height) == pytest.approx((0.09, ratio))
    generators.check_map_count(6, 6)
    with pytest.raises(ModelError, match=r"expected 6 feature maps.*found 5; make the levels \(num_layers"):
        generators.check_map_count(5, 6)


def anchors(*sides):
    """Square anchors on a map of 10 x 10 cells of 8 pixels."""
    sizes = [(float(side), float(side)) for side in sides]
    return [AnchorMap(shape=(10, 10), stride=(8.0, 8.0), offset=(4.0, 4.0), sizes=sizes)]


def test_anchors_that_match_more_are_taken_and_further_ones_where_the_count_may_grow():
    corners = np.random.default_rng(0).uniform(0, 80 - 30, (100, 2))
    squares = np.concatenate([corners, corners + 30], axis=1)
    given, better = choice.Candidate({}, anchors(8)), choice.Candidate({"side": 30}, anchors(30))
    fit = choice.choose_anchors(given, [better], squares, keep_count=True)
    assert (fit.changes, fit.default, fit.fitted, fit.anchors) == ({"side": 30}, 0.0, 1.0, 100)
    # A further anchor that matches nothing more is not laid.
    enough, more = choice.Candidate({}, anchors(30)), choice.Candidate({"sides": [30, 60]}, anchors(30, 60))
    assert choice.choose_anchors(enough, [more], squares, keep_count=False).changes == {}
    more = choice.Candidate({"sides": [8, 30]}, anchors(8, 30))
    assert choice.choose_anchors(given, [more], squares, keep_count=True).changes == {}
    assert choice.choose_anchors(given, [more], squares, keep_count=False).fitted == 1.0


def test_some_thousands_of_boxes_are_tried_and_ratios_are_theirs_and_others_beside_them():
    assert len(choice.sample(np.zeros((10, 4)))) == 10 and len(choice.sample(np.zeros((10_000, 4)))) < 4_000
    np.testing.assert_array_equal(choice.to_pixels(np.array([[0, 0.5, 1, 1]]), (10, 20)), [[0, 10, 10, 20]])
    wide = np.tile([[0.0, 0.0, 10.0, 30.0]], (50, 1))
    assert choice.aspect_ratios(wide, 1) == [3.0]
    assert choice.aspect_ratios(wide, 3) == [2.0, 3.0, 4.5]
    tried = list(choice.scales_and_ratios(wide, 2))
    assert {octave for _, octave, _ in tried} == {1, 2, 3} and tried[0][0] == 1.0


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


def test_a_box_is_matched_from_half_on_and_clusters_are_the_ratios_that_boxes_have():
    def boxes(ratios):
        return np.array([(5, 5, 5 + 10 / r**0.5, 5 + 10 * r**0.5) for r in ratios])

    assert [matched_fraction(np.array(overlaps)) for overlaps in ([], [0.5, 0.49, 1.0, 0.0])] == [0.0, 0.5]
    rng = np.random.default_rng(0)
    ratios = np.concatenate([r * np.exp(rng.normal(0, 0.05, 50)) for r in (0.4, 1.0, 2.5)])
    np.testing.assert_allclose(aspect_clusters(boxes(ratios), 3), (0.4, 1.0, 2.5), rtol=0.05)
    assert aspect_clusters(boxes([2.0] * 9), 3) == (2.0,)
    assert aspect_clusters(np.array([[1, 1, 1, 5]]), 2) == ()
    # One outlier does not pull its cluster away.
    assert aspect_clusters(boxes([1.0] * 60 + [50.0]), 1) == (1.0,)


SSD = generators.SsdAnchorGenerator(
    num_layers=3, min_scale=0.2, max_scale=0.8, scales=(), aspect_ratios=(1.0, 2.0),
    interpolated_scale_aspect_ratio=1.0, reduce_boxes_in_lowest_layer=False, base_anchor_height=1.0,
    base_anchor_width=1.0,
)  # fmt: skip


def test_anchors_are_the_same_with_shapes_known_only_when_run():
    """Their numbers are compared with the reference's in tests/detection_core/builders."""
    grid = build_anchor_generator(AnchorGenerator(grid_anchor_generator={}))
    assert not grid.normalised and SSD.normalised

    @tf.function(input_signature=[tf.TensorSpec([3, 2], tf.int32), tf.TensorSpec([2], tf.int32)])
    def generate(shapes, image):
        maps = [(shapes[layer, 0], shapes[layer, 1]) for layer in range(3)]
        return tf.concat(SSD.generate(maps, image[0], image[1]), axis=0)

    shapes = [(4, 3), (2, 2), (1, 1)]
    found = generate(tf.constant(shapes, tf.int32), tf.constant([300, 200]))
    np.testing.assert_allclose(found, np.concatenate(SSD.generate(shapes, 300, 200)), rtol=1e-5, atol=1e-6)
