"""Anchor generators, and how well anchors cover boxes, against anchors laid one by one."""

import itertools
import math

import numpy as np
import pytest
import tensorflow as tf

from detection_core.errors import ModelError
from detection_core.parts.anchors import choice, generators
from detection_core.parts.anchors.choice import AnchorMap, aspect_clusters, best_overlaps, matched_fraction
from tests.support.batches import lay_anchors, slow_iou
from tests.support.cases import cases, refused


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


def test_flexible_grids_by_hand():
    grids = (
        generators.AnchorGrid(
            base_sizes=(8.0, 4.0), aspect_ratios=(1.0, 4.0), stride=(8.0, 8.0), offset=(4.0, 4.0)
        ),
        generators.AnchorGrid(
            base_sizes=(16.0,), aspect_ratios=(1.0,), stride=(16.0, 16.0), offset=(0.0, 8.0)
        ),
    )
    generator = generators.FlexibleGridAnchorGenerator(grids=grids, normalised=False)
    assert generator.num_anchors_per_location() == [2, 1]
    pixels = generator.generate([(1, 2), (1, 1)], 16, 32)
    np.testing.assert_allclose(pixels[0], [[0, 0, 8, 8], [3, 0, 5, 8], [0, 8, 8, 16], [3, 8, 5, 16]])
    np.testing.assert_allclose(pixels[1], [[-8, 0, 8, 16]])
    refused(ModelError, "expected 2 feature maps", generator.generate, [(1, 2)], 16, 32)
    found = generators.FlexibleGridAnchorGenerator(grids=grids, normalised=True).generate(
        [(1, 2), (1, 1)], 16, 32
    )
    for one, other in zip(found, pixels, strict=True):
        np.testing.assert_allclose(one, other / np.float32([16, 32, 16, 32]))


def test_a_grid_by_hand():
    generator = generators.GridAnchorGenerator(
        height=10.0, width=20.0, stride=(4.0, 8.0), offset=(1.0, 2.0), scales=(1.0, 2.0), aspect_ratios=(4.0,)
    )
    assert generator.num_anchors_per_location() == [2] and not generator.normalised
    (anchors,) = generator.generate([(1, 2)], 100, 100)
    # Aspect ratio 4 halves heights and doubles widths: 5 x 40, then 10 x 80.
    expected = [[-1.5, -18, 3.5, 22], [-4, -38, 6, 42], [-1.5, -10, 3.5, 30], [-4, -30, 6, 50]]
    np.testing.assert_allclose(anchors, expected)
    refused(ModelError, "expected 1 feature maps", generator.generate, [(1, 2), (1, 1)], 100, 100)


def _slow_multiscale(shape, level, height, width):
    stride = 2**level
    scales = [(4 * stride * 2**octave, ratio) for ratio in (1.0, 2.0) for octave in (0, 0.5)]
    sizes = [(side / ratio**0.5, side * ratio**0.5) for side, ratio in scales]
    offset = [stride / 2 if size % stride == 0 else 0 for size in (height, width)]
    return lay_anchors([AnchorMap(shape=shape, stride=(stride, stride), offset=offset, sizes=sizes)])


@cases(*itertools.product([True, False], [(32, 48), (36, 48)]))
def test_multiscale_equals_a_loop(*, normalize, size):
    levels = {"min_level": 3, "max_level": 4, "anchor_scale": 4.0}
    options = {"aspect_ratios": (1.0, 2.0), "scales_per_octave": 2, "normalize_coordinates": normalize}
    generator = generators.MultiscaleAnchorGenerator(**levels, **options)
    assert generator.num_anchors_per_location() == [4, 4]
    shapes = [(5, 6), (3, 3)]
    refused(ModelError, "expected 2 feature maps", generator.generate, shapes[:1], *size)
    if normalize:
        refused(ValueError, "need the image size", generator.generate, shapes, 1, 1)
    unit = np.array([*size, *size]) if normalize else 1.0
    for level, anchors in enumerate(generator.generate(shapes, *size), 3):
        expected = _slow_multiscale(shapes[level - 3], level, *size) / unit
        np.testing.assert_allclose(anchors, expected, rtol=1e-5, atol=1e-5)


SSD = generators.SsdAnchorGenerator(
    num_layers=3,
    min_scale=0.2,
    max_scale=0.8,
    scales=(),
    aspect_ratios=(1.0, 2.0),
    interpolated_scale_aspect_ratio=1.0,
    reduce_boxes_in_lowest_layer=False,
    base_anchor_height=1.0,
    base_anchor_width=1.0,
)
SHAPES = [(4, 3), (2, 2), (1, 1)]


def _slow_ssd_anchors(height, width):
    scales, short = [0.2, 0.5, 0.8, 1.0], min(height, width)
    for layer, (rows, columns) in enumerate(SHAPES):
        between = math.sqrt(scales[layer] * scales[layer + 1])
        pairs = [(scales[layer], 1.0), (scales[layer], 2.0), (between, 1.0)]
        sizes = [(s / math.sqrt(r) * short / height, s * math.sqrt(r) * short / width) for s, r in pairs]
        stride = (1 / rows, 1 / columns)
        offset = (0.5 / rows, 0.5 / columns)
        yield lay_anchors([AnchorMap(shape=(rows, columns), stride=stride, offset=offset, sizes=sizes)])


def test_ssd_anchors_equal_a_loop_also_with_shapes_known_only_when_run():
    anchors = SSD.generate(SHAPES, 300, 200)
    wanted = list(_slow_ssd_anchors(300, 200))
    refused(ModelError, "expected 3 feature maps", SSD.generate, SHAPES[:2], 300, 200)
    for found, expected in zip(anchors, wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)

    @tf.function(input_signature=[tf.TensorSpec([3, 2], tf.int32), tf.TensorSpec([2], tf.int32)])
    def generate(shapes, image):
        maps = [(shapes[layer, 0], shapes[layer, 1]) for layer in range(3)]
        return tf.concat(SSD.generate(maps, image[0], image[1]), axis=0)

    found = generate(tf.constant(SHAPES, tf.int32), tf.constant([300, 200]))
    np.testing.assert_allclose(found, np.concatenate(wanted), rtol=1e-5, atol=1e-6)
