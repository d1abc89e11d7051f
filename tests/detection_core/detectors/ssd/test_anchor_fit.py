import itertools

import numpy as np
import tensorflow as tf

from detection_core.builders.anchors import build_anchor_generator
from detection_core.config.load import load_pipeline_config
from detection_core.config.messages.extractors import map_shapes
from detection_core.config.messages.image_resizers import network_size
from detection_core.config.num_classes import with_classes
from detection_core.config.paths.overrides import apply_overrides
from detection_core.detectors.parts.anchors.coverage import best_overlaps, matched_fraction
from detection_core.detectors.ssd.anchor_fit import anchor_maps, fit_anchors
from detection_core.detectors.ssd.family import FAMILY
from detection_core.ops.iou import iou
from tests.support.cases import cases
from tests.support.configs import LAYERS, PYRAMID, RETINA
from tests.support.laid_anchors import lay_anchors

SIZES = {"model.ssd.image_resizer": {"fixed_shape_resizer": {"height": 160, "width": 208}}}


def ssd(path, **changes):
    return with_classes(apply_overrides(load_pipeline_config(path), {**SIZES, **changes}), 3).model.ssd


@cases(*itertools.product([PYRAMID, LAYERS, RETINA], [(160, 208), (150, 200)]))
def test_the_anchors_are_those_of_the_detector(*, path, size):
    message = ssd(
        path, **{"model.ssd.image_resizer": {"fixed_shape_resizer": {"height": size[0], "width": size[1]}}}
    )
    assert network_size(message.image_resizer) == size
    shapes = map_shapes(message.feature_extractor, *size)
    laid = build_anchor_generator(message.anchor_generator).generate(shapes, *size)
    expected = np.concatenate([level.numpy() for level in laid]) * np.array([*size, *size])
    np.testing.assert_allclose(lay_anchors(anchor_maps(message, size)), expected, rtol=1e-4, atol=1e-3)


def matched(message, found):
    """Part of normalised boxes that an anchor matches."""
    rows, columns = network_size(message.image_resizer)
    return matched_fraction(
        best_overlaps(found * [rows, columns, rows, columns], anchor_maps(message, (rows, columns)))
    )


def boxes(side, ratio, count=300, spread=0.05):
    """Boxes of about one size and shape all over the image, normalised to 160 x 208."""
    rng = np.random.default_rng(1)
    sides = side * np.exp(rng.normal(0, spread, (count, 1))) * np.array([[ratio**-0.5, ratio**0.5]])
    corners = rng.uniform(0, 1, (count, 2)) * (np.array([160, 208]) - sides)
    return np.concatenate([corners, corners + sides], axis=1) / np.array([160, 208, 160, 208])


@cases(PYRAMID, LAYERS, RETINA)
def test_what_matches_is_what_a_report_of_the_data_says(*, path):
    """`init` and the data report look at the anchors of one family in two ways, and see the same."""
    message, found = ssd(path), np.concatenate([boxes(40, 1.0), boxes(60, 2.5), boxes(15, 0.4)])
    anchors = FAMILY.anchors.boxes(message, "model.ssd")
    seen = matched_fraction(tf.reduce_max(iou(tf.constant(found, tf.float32), anchors), axis=1).numpy())
    assert 0 < seen < 1 and fit_anchors(message, "model.ssd", found, keep_count=True).default == seen


@cases(*itertools.product([PYRAMID, LAYERS], [True, False]))
def test_fitted_anchors_match_boxes_that_the_own_ones_miss(*, path, keep_count):
    message, found = ssd(path), boxes(60, 5.0)
    fit = fit_anchors(message, "model.ssd", found, keep_count=keep_count)
    assert fit.default < 0.3 and fit.fitted > fit.default + 0.4
    fitted = ssd(path, **fit.overrides)
    assert matched(fitted, found) == fit.fitted
    maps = anchor_maps(fitted, (160, 208))
    assert fit.anchors == sum(m.count for m in maps)
    if keep_count:
        before = [len(m.sizes) for m in anchor_maps(message, (160, 208))]
        assert [len(m.sizes) for m in maps] == before


def test_anchors_that_match_all_stay_as_they_are():
    message = ssd(PYRAMID)
    (first, *_), *_ = (m.sizes for m in anchor_maps(message, (160, 208)))
    found = boxes(float(np.sqrt(np.prod(first))), first[1] / first[0], spread=0.01)
    fit = fit_anchors(message, "model.ssd", found, keep_count=True)
    assert fit.default == fit.fitted
    assert fit.overrides == {}


def test_without_boxes_nothing_is_fitted():
    fit = fit_anchors(ssd(PYRAMID), "model.ssd", np.zeros((0, 4)), keep_count=False)
    assert (fit.overrides, fit.default, fit.fitted) == ({}, 0.0, 0.0)


def test_anchors_of_other_generators_are_measured_and_left_alone():
    grids = " ".join(
        f"anchor_grid {{ base_sizes: 30 aspect_ratios: 1 height_stride: {s} width_stride: {s} }}"
        for s in (8, 16, 32, 64)
    )
    text = f"{{ flexible_grid_anchor_generator {{ {grids} normalize_coordinates: true }} }}"
    message = ssd(PYRAMID, **{"model.ssd.anchor_generator": text})
    found = boxes(30, 1.0)
    fit = fit_anchors(message, "model.ssd", found, keep_count=False)
    assert fit.overrides == {}
    assert fit.default == fit.fitted == matched(message, found) > 0.5
