"""The first stage's anchors as a config alone gives them, and their fit to boxes."""

import numpy as np

from detection_core.builders.detector import configured_model
from detection_core.config.load import parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.families.faster_rcnn.anchors import anchor_map, fit_anchors
from detection_core.parts.anchors.choice import best_overlaps, matched_fraction
from detection_core.zoo.networks import find_network
from tests.support.batches import boxes_like, images_of, lay_anchors, noise
from tests.support.two_stage import KEEPING, PADDED, build, model_text, tiny_extractor

SIZE = (256, 320)
RESIZER = "model.faster_rcnn.image_resizer"
FIXED = {RESIZER: {"fixed_shape_resizer": {"height": SIZE[0], "width": SIZE[1]}}}
CONFIG = apply_overrides(parse_pipeline_config(find_network("mask_rcnn_resnet50_v1").text()), FIXED)
PYRAMID = "faster_rcnn_resnet50_v1_fpn_640x640_coco17_tpu-8"


def test_the_anchors_of_a_config_are_those_that_its_detector_lays():
    with tiny_extractor():
        for resizer, side in (("fixed_shape_resizer { height: 50 width: 70 }", (50, 70)), (PADDED, (64, 64))):
            config = parse_pipeline_config(model_text(2, resizer))
            anchors = configured_model(config).anchors()
            laid = build(2, resizer).first_stage(images_of(noise(1, *side, 3)), training=False)
            np.testing.assert_array_equal(anchors, laid.predictions.anchors)
            pixels = lay_anchors([anchor_map(config.model.faster_rcnn, side)])
            np.testing.assert_allclose(anchors * [*side, *side], pixels, rtol=1e-4, atol=1e-3)
        config = parse_pipeline_config(model_text(2, KEEPING))
        assert configured_model(config).anchors() is None
    assert configured_model(parse_pipeline_config(find_network(PYRAMID).text())).anchors().shape[1] == 4


def test_fitted_anchors_match_small_boxes_where_needed_on_a_finer_map():
    message = CONFIG.model.faster_rcnn
    for side, keep_count, stride, gain in ((20, False, 8, 0.9), (20, True, 16, 0.2), (60, False, 16, 0)):
        boxes = boxes_like(side, 1.5, SIZE)
        fit = fit_anchors(message, "model.faster_rcnn", boxes, keep_count=keep_count)
        changed = apply_overrides(CONFIG, fit.overrides).model.faster_rcnn
        assert changed.feature_extractor.first_stage_features_stride == stride, side
        laid = anchor_map(changed, SIZE)
        assert laid.stride == (stride, stride) and fit.anchors == laid.count
        assert not keep_count or len(laid.sizes) == 12
        assert matched_fraction(best_overlaps(boxes * [*SIZE, *SIZE], [laid])) == fit.fitted
        assert fit.fitted >= fit.default + gain, (side, fit)


def test_nothing_is_fitted_without_boxes_a_grid_or_one_size():
    fit = fit_anchors(CONFIG.model.faster_rcnn, "", np.zeros((0, 4)), keep_count=False)
    assert (fit.overrides, fit.default, fit.fitted) == ({}, 0.0, 0.0)
    keeping = {RESIZER: {"keep_aspect_ratio_resizer": {"min_dimension": 64, "max_dimension": 96}}}
    pyramid = parse_pipeline_config(find_network(PYRAMID).text())
    for config in (apply_overrides(CONFIG, keeping), pyramid):
        assert fit_anchors(config.model.faster_rcnn, "", boxes_like(20, 1, SIZE), keep_count=True) is None
