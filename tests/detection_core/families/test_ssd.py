"""Anchors, targets, description, quantization and TensorFlow Lite of SSDs; the larger modules have files."""

import itertools
import logging

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from detection_core.artifacts.quantization import QuantizationOptions
from detection_core.builders.detector import build_detector, configured_model
from detection_core.builders.detector_parts import build_anchor_generator
from detection_core.config.load import load_pipeline_config, parse_pipeline_config
from detection_core.config.messages.sizes import network_size
from detection_core.config.model_fields import with_classes
from detection_core.config.paths.overrides import apply_overrides
from detection_core.detectors.base import REGULARIZATION_LOSS
from detection_core.detectors.quantization import ONE_STAGE_IN_FLOAT
from detection_core.errors import ExportError
from detection_core.exporters.tflite_forms import input_normalisation
from detection_core.families.ssd.anchors import anchor_maps, fit_anchors
from detection_core.families.ssd.build import build_target_assigner, describe_ssd
from detection_core.families.ssd.extractors import EXTRACTORS, map_shapes
from detection_core.families.ssd.family import FAMILY
from detection_core.families.ssd.model import CLASSIFICATION_LOSS, LOCALIZATION_LOSS
from detection_core.families.ssd.tflite import post_process_options
from detection_core.ops.iou import iou
from detection_core.parts.anchors.choice import best_overlaps, matched_fraction
from detection_core.parts.targets import AnchorTargetAssigner, ConfidenceTargetAssigner
from detection_core.protos import ssd_pb2
from tests.support.batches import boxes_like, lay_anchors
from tests.support.cases import cases, refused
from tests.support.configs import LAYERS, PYRAMID, RETINA
from tests.support.tflite_operations import outputs
from tests.support.tiny_detector import TinyDetector
from tests.support.tiny_training import config_text

SIZE = (160, 208)


def sized(path, size=SIZE, **changes):
    """A config of three classes for images of a size."""
    resizer = {"fixed_shape_resizer": {"height": size[0], "width": size[1]}}
    changes = {"model.ssd.image_resizer": resizer, **changes}
    return with_classes(apply_overrides(load_pipeline_config(path), changes), 3)


@cases(*itertools.product([PYRAMID, LAYERS, RETINA], [SIZE, (150, 200)]))
def test_the_anchors_are_those_of_the_detector(*, path, size):
    config = sized(path, size)
    message = config.model.ssd
    assert network_size(message.image_resizer) == size
    shapes = map_shapes(message.feature_extractor, *size)
    laid = build_anchor_generator(message.anchor_generator).generate(shapes, *size)
    expected = np.concatenate([level.numpy() for level in laid]) * np.array([*size, *size])
    np.testing.assert_allclose(lay_anchors(anchor_maps(message, size)), expected, rtol=1e-4, atol=1e-3)
    if size != SIZE:  # those that it matches objects with: to the last bit, in order, without its network
        model = configured_model(config)
        np.testing.assert_array_equal(model.anchors(), model.build(seed=None).anchors)


def matched(message, found):
    """Part of normalised boxes that an anchor matches."""
    return matched_fraction(best_overlaps(found * [*SIZE, *SIZE], anchor_maps(message, SIZE)))


def fitted(message, found, keep_count=False):
    return fit_anchors(message, "model.ssd", found, keep_count=keep_count)


@cases(PYRAMID, LAYERS, RETINA)
def test_what_matches_is_what_a_report_of_the_data_says(*, path):
    """`init` and the data report look at the anchors of one family in two ways, and see the same."""
    found = np.concatenate([boxes_like(*each, SIZE) for each in ((40, 1.0), (60, 2.5), (15, 0.4))])
    message = sized(path).model.ssd
    anchors = FAMILY.anchors.boxes(message, "model.ssd")
    seen = matched_fraction(tf.reduce_max(iou(tf.constant(found, tf.float32), anchors), axis=1).numpy())
    assert 0 < seen < 1 and fitted(message, found, keep_count=True).default == seen


@cases(*itertools.product([PYRAMID, LAYERS], [True, False]))
def test_fitted_anchors_match_boxes_that_the_own_ones_miss(*, path, keep_count):
    message, found = sized(path).model.ssd, boxes_like(60, 5.0, SIZE)
    fit = fitted(message, found, keep_count)
    assert fit.default < 0.3 and fit.fitted > fit.default + 0.4
    changed = sized(path, **fit.overrides).model.ssd
    assert matched(changed, found) == fit.fitted
    before, maps = anchor_maps(message, SIZE), anchor_maps(changed, SIZE)
    assert fit.anchors == sum(m.count for m in maps)
    assert not keep_count or [len(m.sizes) for m in maps] == [len(m.sizes) for m in before]


def test_a_fit_has_no_more_ratios_than_the_config():
    path = "model.ssd.anchor_generator.ssd_anchor_generator.aspect_ratios"
    found = np.concatenate([boxes_like(60, 5.0, SIZE), boxes_like(60, 0.2, SIZE, count=200)])
    fit = fitted(sized(LAYERS, **{path: [1.0]}).model.ssd, found)
    assert fit.overrides[path] == [5.0] and fit.fitted > fit.default


def test_anchors_that_match_all_stay_as_do_those_without_boxes_and_of_other_generators():
    message = sized(PYRAMID).model.ssd
    (first, *_), *_ = (m.sizes for m in anchor_maps(message, SIZE))
    found = boxes_like(float(np.sqrt(np.prod(first))), first[1] / first[0], SIZE, spread=0.01)
    fit = fitted(message, found, keep_count=True)
    assert fit.default == fit.fitted and fit.overrides == {}
    fit = fitted(message, np.zeros((0, 4)))
    assert (fit.overrides, fit.default, fit.fitted) == ({}, 0.0, 0.0)
    grids = " ".join(
        f"anchor_grid {{ base_sizes: 30 aspect_ratios: 1 height_stride: {s} width_stride: {s} }}"
        for s in (8, 16, 32, 64)
    )
    text = f"{{ flexible_grid_anchor_generator {{ {grids} normalize_coordinates: true }} }}"
    message = sized(PYRAMID, **{"model.ssd.anchor_generator": text}).model.ssd
    found = boxes_like(30, 1.0, SIZE)
    fit = fitted(message, found)
    assert fit.overrides == {} and fit.default == fit.fitted == matched(message, found) > 0.5


def test_the_record_names_what_the_family_has():
    assert set(FAMILY.extractor_types) == set(EXTRACTORS)
    assert set(FAMILY.loss_names) == {LOCALIZATION_LOSS, CLASSIFICATION_LOSS, REGULARIZATION_LOSS}


def test_levels_and_anchors_of_the_description_are_those_of_the_predictions():
    config = parse_pipeline_config(config_text())
    model = build_detector(config.model, seed=None)
    found = describe_ssd(config.model.ssd, model)
    assert found.summary == "ssd_mobilenet_v2_fpn_keras (mobilenet_v2, fpn)"
    anchors, levels = found.data["anchors"], found.data["levels"]
    assert [(level["rows"], level["columns"]) for level in levels] == [(8, 8), (4, 4), (2, 2)]
    assert anchors == model.network.output_shape[0][1] == sum(level["anchors"] for level in levels)
    assert found.rows[:2] == [("anchors", f"{anchors}"), ("", "8 x 8 x 2")]
    assert found.parts.keys() == {"head", "losses"}


def test_the_network_is_quantized_and_what_follows_it_is_listed_as_float(caplog):
    model = build_detector(parse_pipeline_config(config_text()).model, seed=None)
    with caplog.at_level(logging.WARNING):
        rewritten = FAMILY.require_quantization().rewrite(model, QuantizationOptions(delay=0), None)
    assert type(rewritten.model) is type(model) and rewritten.model.network is not model.network
    assert {entry.layer for entry in rewritten.describe().not_quantized} == set(ONE_STAGE_IN_FLOAT)
    assert not rewritten.float_layers() and "stays in float" not in caplog.text


PARTS = "num_classes: 4 matcher { argmax_matcher {} } similarity_calculator { iou_similarity {} } "
CODER = "box_coder { faster_rcnn_box_coder {} } "
KEYPOINTS = "box_coder { keypoint_box_coder { num_keypoints: 3 } } "
EXPLICIT = "explicit_background_class: true add_background_class: false"


def _assigner(text: str):
    return build_target_assigner(text_format.Parse(text, ssd_pb2.Ssd()))


@cases(
    ("", AnchorTargetAssigner, 5),
    ("add_background_class: false", AnchorTargetAssigner, 4),
    ("use_confidences_as_targets: true", ConfidenceTargetAssigner, 5),
    (EXPLICIT, AnchorTargetAssigner, 4),
)
def test_kinds_of_target_assigners(*, text, kind, columns):
    assigner = _assigner(PARTS + CODER + text)
    assert (type(assigner), assigner.target_columns) == (kind, columns)
    assert assigner.num_classes == (3 if text == EXPLICIT else 4)
    text = PARTS + KEYPOINTS + "loss { localization_loss { weighted_smooth_l1 {} } }"
    assert _assigner(text).box_coder.code_size == 10  # keypoints are coded with the box


def test_what_a_tensorflow_lite_file_is_made_with():
    def options(classes: str, coder: str):
        suppression = "batch_non_max_suppression { score_threshold: 1e-8 iou_threshold: 0.6 }"
        text = f"{classes} box_coder {{ {coder} }} post_processing {{ {suppression} }}"
        config = parse_pipeline_config(f"model {{ ssd {{ {text} }} }}")
        return post_process_options(config, outputs(max_detections=10))

    coder = "faster_rcnn_box_coder { y_scale: 10 x_scale: 10 height_scale: 5 width_scale: 5 }"
    explicit = options("num_classes: 91 explicit_background_class: true", coder)
    assert explicit.num_classes == 90
    expected = r"model.ssd.box_coder: expected faster_rcnn_box_coder"
    refused(ExportError, expected, options, "num_classes: 90", "mean_stddev_box_coder {}")
    mean, std = input_normalisation(TinyDetector())
    assert mean == pytest.approx((127.5,) * 3) and std == pytest.approx((127.5,) * 3)
