"""Anchors, codes, names, description, quantization and building of EfficientDets."""

import numpy as np
import pytest
from google.protobuf import text_format

from detection_core.artifacts.quantization import QuantizationOptions
from detection_core.builders.detector import build_detector
from detection_core.detectors.quantization import ONE_STAGE_IN_FLOAT
from detection_core.errors import ConfigError
from detection_core.families.efficientdet import anchors, build, checkpoint_names, family, losses
from detection_core.families.efficientdet.network import build_network
from detection_core.families.efficientdet.settings import settings_of
from detection_core.ops.iou import iou
from detection_core.parts.anchors.choice import best_overlaps, matched_fraction
from detection_core.protos.efficientdet_pb2 import EfficientDet
from detection_core.protos.model_pb2 import DetectionModel
from tests.support import efficientdet_goldens as goldens
from tests.support.batches import boxes_like
from tests.support.cases import cases, refused

SIZE = (160, 208)
SMALL = {"fpn_cell_repeats": 1, "box_class_repeats": 1, "max_level": 6}
LAID = [name for name, case in goldens.cases("anchors").items() if "error" not in case]


@cases(*LAID)
def test_anchors_equal_the_reference(*, case):
    golden = goldens.cases("anchors")[case]
    settings, size = goldens.anchor_settings(golden["params"])
    found, expected = anchors.anchors_px(settings, size), goldens.wanted("anchors", case)
    assert (
        len(found)
        == golden["fact"]["count"]
        == sum(level.count for level in anchors.anchor_maps(settings, size))
    )
    boxes = expected.get("boxes", expected.get("boxes_sampled"))
    np.testing.assert_allclose(found if "boxes" in expected else goldens.sampled(found), boxes, 1e-5, 1e-4)
    np.testing.assert_allclose(found.astype(np.float64).sum(axis=0), expected["column_sums"], 1e-5)


def _message(**changes):
    found = goldens.message("efficientdet-lite0", SIZE, num_classes=2)
    for name, value in changes.items():
        field = name.rpartition(".")[2]
        if isinstance(value, list):
            getattr(found, field)[:] = value
        else:
            setattr(found, field, value)
    return found


@cases(True, False)
def test_fitted_anchors_match_boxes_that_the_own_ones_miss(*, keep_count):
    found = boxes_like(60, 5.0, SIZE)
    fit = anchors.fit_anchors(_message(), "model.efficientdet", found, keep_count=keep_count)
    assert fit.default < 0.3 and fit.fitted > fit.default + 0.4
    settings = settings_of(_message(**fit.overrides))
    maps = anchors.anchor_maps(settings, SIZE)
    assert matched_fraction(best_overlaps(found * [*SIZE, *SIZE], maps)) == fit.fitted
    assert fit.anchors == sum(level.count for level in maps)
    assert settings.anchors_per_location == 9 or not keep_count


def test_what_matches_is_what_the_laid_anchors_match_and_without_boxes_nothing_is_fitted():
    found = np.concatenate([boxes_like(*each, SIZE) for each in ((40, 1.0), (60, 2.5), (15, 0.4))])
    fit = anchors.fit_anchors(_message(), "model.efficientdet", found, keep_count=True)
    overlaps = iou(found.astype(np.float32), anchors.normalized_anchors(settings_of(_message()))).numpy()
    assert 0 < fit.default < 1 and fit.default == matched_fraction(overlaps.max(axis=1))
    fit = anchors.fit_anchors(_message(), "model.efficientdet", np.zeros((0, 4)), keep_count=False)
    assert (fit.overrides, fit.default, fit.fitted) == ({}, 0.0, 0.0)


@cases("encode", "encode_degenerate", "decode", "decode_round_trip", "decode_batched")
def test_codes_and_boxes_equal_the_reference(*, case):
    given, wanted = goldens.given("box_coding", case), goldens.wanted("box_coding", case)
    coder = losses.EfficientDetBoxCoder()
    if case.startswith("encode"):
        np.testing.assert_allclose(
            coder.encode(given["boxes"], given["anchors"]), wanted["codes"], 1e-5, 1e-5
        )
        return
    boxes = coder.decode(given["codes"], given["anchors"])
    np.testing.assert_allclose(boxes, wanted["boxes"], 1e-5, 1e-4)
    if case == "decode":
        np.testing.assert_allclose(coder.encode(boxes, given["anchors"]), given["codes"], 1e-3, 1e-3)


@cases("efficientdet-d0", "efficientdet-lite0")
def test_variables_are_the_reference_s_and_another_network_is_refused(*, name):
    """Those of the larger networks are in efficientdet/test_network.py."""
    settings = goldens.settings(name)
    network = build_network(settings, (128, 128), None)
    goldens.assert_variables(name, network, settings)
    with pytest.raises(ValueError, match="class_tower_2"):
        checkpoint_names.automl_variables(network, goldens.settings(name, box_class_repeats=2))


def test_a_description_names_model_backbone_anchors_and_heads():
    found = build.describe_efficientdet(goldens.small_detector(None, size=(128, 192), iou_loss_type="ciou"))
    assert found.summary == "efficientdet-lite0 (efficientnet-lite0, 1 x 8 nodes of 64, sum)"
    assert found.rows[:2] == [("anchors", f"{found.data['anchors']:,}"), ("", "16 x 24 x 9")]
    assert found.data["anchors"] == 9 * (16 * 24 + 8 * 12 + 4 * 6 + 2 * 3 + 1 * 2)
    assert found.parts["losses"] == "focal + 50 x huber + 1 x ciou"
    heads = ["object_detection", "segmentation"]
    found = build.describe_efficientdet(
        goldens.small_detector(None, heads=heads, seg_num_classes=4, max_level=6)
    )
    assert found.parts["head"] == "1 x 64, relu6; segmentation into 4"
    assert found.parts["losses"].endswith("+ cross entropy of pixels")


@pytest.mark.parametrize("name", ["lite0", pytest.param("d0", marks=pytest.mark.slow)])
def test_the_network_is_quantized_and_what_follows_it_is_listed_as_float(name):
    """At 160 pixels maps of 3 x 3 and 5 x 5 are resized into each other."""
    message = goldens.message(f"efficientdet-{name}", 160, **SMALL)
    model = build.build_efficientdet(message, "model.efficientdet", None)
    rewritten = family.FAMILY.require_quantization().rewrite(model, QuantizationOptions(delay=0), None)
    assert type(rewritten.model) is type(model) and rewritten.model.network is not model.network
    described = rewritten.describe()
    assert {entry.layer for entry in described.not_quantized} <= set(ONE_STAGE_IN_FLOAT)
    assert described.coverage.fraction == 1.0
    assert len(rewritten.model.trainable_variables) > 0


def test_a_config_names_a_model_and_its_classes_and_unknown_ones_are_refused():
    text = 'efficientdet { name: "efficientdet-lite0" num_classes: 2 fpn_cell_repeats: 1 }'
    detector = build_detector(text_format.Parse(text, DetectionModel()), seed=None)
    assert (detector.input_shape.size, detector.anchors.shape) == ((320, 320), (19206, 4))
    assert detector.num_classes == 2
    message = text_format.Parse(text.replace("lite0", "d9"), DetectionModel())
    refused(ConfigError, r"efficientdet-d7x.*'efficientdet-d9'", build_detector, message)


def test_frozen_variables_are_neither_trained_nor_decayed():
    fields = {"var_freeze_expr": "(efficientnet|fpn_cells)", "fpn_num_filters": 8, **SMALL}
    message = goldens.message("efficientdet-lite0", 64, **fields)
    detector = build.build_efficientdet(message, "model.efficientdet", None)
    names = {variable.name for variable in detector.trainable_variables}
    assert names and all(name.startswith(("class_", "box_", "bifpn_coarse")) for name in names)
    decayed = detector.parts.regularizers
    assert {"class_head_pointwise/kernel", "box_tower_0_depthwise/depthwise_kernel"} <= set(decayed)
    assert not any(key.startswith(("backbone", "bifpn_0")) or key.endswith("bias") for key in decayed)


def test_first_weights_depend_on_the_seed_and_classes_start_rare():
    message = goldens.message("efficientdet-lite0", 64, fpn_num_filters=8, **SMALL)
    networks = [build.build_efficientdet(message, "", seed).network for seed in (1, 1, 2)]
    first, same, other = (network.get_weights() for network in networks)
    assert all(np.array_equal(a, b) for a, b in zip(first, same, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))
    bias = networks[0].get_layer("class_head_pointwise").bias.numpy()
    np.testing.assert_allclose(1 / (1 + np.exp(-bias)), 0.01, rtol=1e-4)


@cases(
    ({}, (True, 0.001, 0.5)),
    ({"method": "hard"}, (False, -float("inf"), 0.5)),
    ({"method": "hard", "iou_thresh": 0.3, "score_thresh": 0.2}, (False, 0.2, 0.3)),
)
def test_numbers_of_suppression_that_are_not_set_are_the_reference_s(*, fields, expected):
    found = build.suppression_options(EfficientDet.NonMaxSuppression(**fields))
    assert (found.soft, found.score_threshold, found.iou_threshold) == pytest.approx(expected)
    assert (found.mode, found.max_detections, found.max_inputs) == ("global", 100, 0)
